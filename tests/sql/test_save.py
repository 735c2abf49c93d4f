"""Saving one memory: what is kept, what is filled in, what is refused."""

import psycopg
import pytest
from tests.sql.calling import Caller, refused, scalar, vector


def test_r17_a_saved_memory_is_found_by_its_words_and_its_id_round_trips(bot: Caller) -> None:
    saved = bot.save("the token is zq81kx")
    (found,) = bot.search("zq81kx")
    assert (found["id"], found["content"]) == (saved["id"], "the token is zq81kx")
    assert bot.reply("get", memory_id=found["id"]) == saved["memory"]
    (gone,) = bot.call("forget", memory_id=found["id"])
    assert gone["id"] == saved["id"]
    assert bot.search("zq81kx") == []


def test_what_is_not_given_is_filled_in(bot: Caller) -> None:
    saved = bot.save("plain")
    memory = saved["memory"]
    assert saved["status"] == "saved"
    assert (memory["memory_type"], memory["source"], memory["state"]) == (
        "fact",
        "conversation",
        "active",
    )
    assert (memory["tags"], memory["shared"], memory["version"]) == ([], False, 1)
    assert memory["confidence"] == 0.8
    assert memory["embedded"] is False
    assert memory["occurred_at"] == memory["created_at"]
    assert "metadata" not in memory
    assert "confirmed_at" not in memory


def test_what_is_given_is_stored(bot: Caller) -> None:
    saved = bot.save(
        "all of it",
        memory_type="plan",
        tags=["b", "a", "b"],
        confidence=0.4,
        source="file",
        occurred_at="2026-05-31T18:30:00.123456+02:00",
        conversation_id="talk",
        metadata={"ticket": 7, "nested": {"deep": [1, None]}},
        shared=True,
        embedding=vector(1),
    )
    memory = bot.reply("get", memory_id=saved["id"])
    assert memory["tags"] == ["b", "a"]
    assert memory["metadata"] == {"ticket": 7, "nested": {"deep": [1, None]}}
    assert (memory["memory_type"], memory["source"], memory["confidence"]) == ("plan", "file", 0.4)
    assert (memory["conversation_id"], memory["shared"]) == ("talk", True)
    assert memory["occurred_at"].startswith("2026-05-31T16:30:00.123456")
    assert "embedded" not in memory


SOURCES = [
    ("user", 0.9, 1.0),
    ("conversation", 0.8, 0.95),
    ("assistant", 0.6, 0.8),
    ("file", 0.7, 0.9),
    ("tool", 0.5, 0.7),
    ("web", 0.5, 0.7),
    ("log", 0.5, 0.7),
    ("import", 0.7, 0.9),
]


@pytest.mark.parametrize(("source", "default", "maximum"), SOURCES)
def test_a_source_gives_the_default_confidence_and_its_maximum(
    bot: Caller, source: str, default: float, maximum: float
) -> None:
    assert bot.save("default", source=source)["memory"]["confidence"] == default
    assert bot.save("highest", source=source, confidence=1)["memory"]["confidence"] == maximum
    assert bot.save("lowest", source=source, confidence=0.0)["memory"]["confidence"] == 0


def test_those_are_all_the_sources(server: psycopg.Connection) -> None:
    assert scalar(server, "select count(*) from memory.sources") == len(SOURCES)


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 👍🏽",
        "שלום עולם \u202eabc\u202c مرحبا",
        "e\u0301 is not é",
        "tabs\tand\n\nlines\r\n  kept  ",
        "quote ' \" ` \\ $$ %s {} \x01\x7f",
        "𠮷野家 ﷽ \U0010ffff",
    ],
)
def test_r62_unicode_is_kept_exactly(bot: Caller, text: str) -> None:
    saved = bot.save(text)
    assert bot.reply("get", memory_id=saved["id"])["content"] == text
    assert bot.contents() == [text]


@pytest.mark.parametrize("text", ["", " \t\r\n", "\u00a0\u3000\u2003", "\u200b\u200d\ufeff", None])
def test_r62_white_space_only_is_an_error(bot: Caller, text: str | None) -> None:
    with refused("MP005"):
        bot.call("save", content=text)


def test_r62_a_line_of_a_megabyte_is_an_error_that_states_the_limit(bot: Caller) -> None:
    with refused("MP005") as caught:
        bot.save("x" * 1_000_000)
    assert "8000" in str(caught.value)
    assert bot.save("after")["status"] == "saved"


def test_r62_the_bad_ones_of_a_list_do_not_lose_the_others(bot: Caller) -> None:
    rows = bot.save_list("👩‍👩‍👧‍👦", "x" * 1_000_000, "שלום", " \n", "last")
    assert [row["status"] for row in rows] == ["saved", "error", "saved", "error", "saved"]
    assert sorted(bot.contents()) == sorted(["👩‍👩‍👧‍👦", "שלום", "last"])


def test_a_local_time_is_read_in_the_zone_of_the_user(bot: Caller) -> None:
    bot.call("set_user", time_zone="Asia/Tokyo")
    (row,) = bot.save_list({"content": "morning", "occurred_at": "2026-05-31T08:00"})
    assert row["memory"]["occurred_at"].startswith("2026-05-30T23:00:00")
    (row,) = bot.save_list({"content": "with offset", "occurred_at": "2026-05-31T08:00Z"})
    assert row["memory"]["occurred_at"].startswith("2026-05-31T08:00:00")


def test_an_id_is_a_time_ordered_uuid(bot: Caller) -> None:
    saved = [bot.save(f"number {n}")["id"] for n in range(5)]
    assert {(identifier.version, identifier.variant) for identifier in saved} == {
        (7, "specified in RFC 4122")
    }
    assert sorted(saved, key=lambda identifier: identifier.int >> 80) == saved


def test_a_save_never_confirms(bot: Caller) -> None:
    bot.save("said once", source="user", confidence=1)
    assert "confirmed_at" not in bot.save("said once", source="user", confidence=1)["memory"]


@pytest.mark.parametrize(
    ("embedding", "code"),
    [(vector(1, dimensions=383), "MP007"), (vector(1, dimensions=768), "MP007")],
)
def test_a_vector_of_other_dimensions_is_refused(bot: Caller, embedding: str, code: str) -> None:
    with refused(code):
        bot.save("text", embedding=embedding)


def test_a_vector_of_length_zero_is_refused(bot: Caller) -> None:
    with refused("MP007"):
        bot.save("text", embedding="[" + ",".join(["0"] * 384) + "]")
