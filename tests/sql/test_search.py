"""Search besides its arms: filters, order, notes, what a row says of itself."""

from typing import Any

import psycopg
import pytest
from tests.sql.calling import Caller, at_cosine, refused, vector


@pytest.fixture
def notices(server: psycopg.Connection) -> list[str]:
    """What the database says beside the rows."""
    said: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        said.append(f"{diagnostic.severity_nonlocalized}: {diagnostic.message_primary}")

    server.add_notice_handler(note)
    return said


def test_without_a_vector_a_notice_says_that_only_keywords_were_searched(
    bot: Caller, notices: list[str]
) -> None:
    bot.save("text", embedding=vector(1))
    bot.search("text", embedding=vector(1))
    assert notices == []
    bot.search("text")
    assert [line.split(":")[0] for line in notices] == ["NOTICE"]
    assert "keywords" in notices[0]


def test_the_reply_says_so_in_its_notes_and_names_the_arms(bot: Caller, notices: list[str]) -> None:
    bot.save("text", embedding=vector(1))
    reply = bot.reply("search_reply", query="text")
    assert reply["searched"]["arms"] == ["keywords"]
    assert any("keywords" in note for note in reply["notes"])
    reply = bot.reply("search_reply", query="text", embedding=vector(1))
    assert "vector" in reply["searched"]["arms"]
    assert reply["notes"] == []
    assert notices == []


def test_the_reply_has_its_shape_and_names_who_was_searched(bot: Caller, user: str) -> None:
    bot.save("text", tags=["a"], metadata={"k": 1})
    reply = bot.reply("search_reply", query="text", tags=["a"], memory_types=["fact"])
    assert {"memories", "searched", "notes", "next_cursor"} <= set(reply)
    assert (reply["searched"]["user"], reply["searched"]["agent"]) == (user, "bot")
    assert reply["searched"]["filters"]["tags"] == ["a"]
    (memory,) = reply["memories"]
    assert memory["content"] == "text"
    assert memory["metadata"] == {"k": 1}
    assert memory["why"]
    assert "arms" not in memory
    explained = bot.reply("search_reply", query="text", explain=True)["memories"][0]
    assert explained["arms"]["keyword"] > 0


def test_nothing_found_says_where_was_searched(bot: Caller, user: str) -> None:
    bot.save("text")
    for reply in (
        bot.reply("search_reply", query="zebra"),
        bot.reply("list_reply", tags=["none"]),
    ):
        assert reply["memories"] == []
        assert any(user in note and "bot" in note for note in reply["notes"])


def test_r18_the_window_of_a_reply_is_honoured_and_echoed_in_the_users_zone(bot: Caller) -> None:
    bot.call("set_user", time_zone="America/Los_Angeles")
    bot.save("inside the window", occurred_at="2026-05-31T20:00Z")
    bot.save("the next window", occurred_at="2026-06-01T08:00Z")
    for function, named in (("search_reply", {"query": "window"}), ("list_reply", {})):
        reply = bot.reply(function, since="2026-05-31", until="2026-05-31", **named)
        assert [memory["content"] for memory in reply["memories"]] == ["inside the window"]
        assert "2026-05-31T07:00" in reply["searched"]["window"]["from"]
        assert "2026-06-01T07:00" in reply["searched"]["window"]["to"]


@pytest.mark.parametrize(
    "named", [{"since": "soon"}, {"until": "2026-13-01"}, {"since": "2026-05-31T99:00"}]
)
def test_a_window_that_cannot_be_read_is_an_error(bot: Caller, named: dict[str, str]) -> None:
    bot.save("text")
    with refused("MP005"):
        bot.reply("search_reply", query="text", **named)
    with refused("MP005"):
        bot.reply("list_reply", **named)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"tags": ["a"]}, {"one", "two"}),
        ({"tags": ["a", "b"]}, {"two"}),
        ({"tags": ["A"]}, set()),
        ({"tags": ["a "]}, set()),
        ({"memory_types": ["plan"]}, {"two", "three"}),
        ({"memory_types": ["fact", "plan"]}, {"one", "two", "three"}),
        ({"memory_types": ["fact"], "tags": ["b"]}, set()),
    ],
)
def test_all_named_tags_and_one_of_the_types_filter(
    bot: Caller, named: dict[str, Any], expected: set[str]
) -> None:
    bot.save("filtered one", tags=["a"], embedding=vector(1))
    bot.save("filtered two", tags=["a", "b"], memory_type="plan", embedding=vector(1))
    bot.save("filtered three", tags=["b"], memory_type="plan", embedding=vector(1))
    contents = {f"filtered {name}" for name in expected}
    assert set(bot.found("filtered", **named)) == contents
    assert set(bot.found("unrelated", embedding=vector(1), **named)) == contents
    assert set(bot.contents(**named)) == contents


def test_recent_first_orders_what_was_found_by_time(bot: Caller) -> None:
    bot.save("apple apple apple", occurred_at="2026-01-01T00:00Z")
    bot.save("an apple among many other words in a text", occurred_at="2026-03-01T00:00Z")
    bot.save("apple and pear", occurred_at="2026-02-01T00:00Z")
    bot.save("nothing of the kind", occurred_at="2026-04-01T00:00Z")
    assert bot.found("apple")[0] == "apple apple apple"
    assert bot.found("apple", recent_first=True) == [
        "an apple among many other words in a text",
        "apple and pear",
        "apple apple apple",
    ]


def test_of_equal_matches_the_recent_and_the_sure_one_comes_first(bot: Caller) -> None:
    bot.save("apple pie one", occurred_at="2020-01-01T00:00Z", confidence=0.8)
    bot.save("apple pie two", confidence=0.8)
    assert bot.found("apple pie")[0] == "apple pie two"
    bot.save("cherry pie one", occurred_at="2026-01-01T00:00Z", confidence=0.2)
    bot.save("cherry pie two", occurred_at="2026-01-01T00:00Z", confidence=0.9)
    assert bot.found("cherry pie")[0] == "cherry pie two"


def test_a_strong_match_is_not_buried_by_recency_confidence_or_use(bot: Caller) -> None:
    bot.save(
        "the quarterly budget is 40000",
        occurred_at="2015-01-01T00:00Z",
        confidence=0.1,
        embedding=at_cosine(0.7),
    )
    for n in range(20):
        for _ in range(3):
            bot.save(f"weak {n}", source="user", confidence=1, embedding=at_cosine(0.35))
    assert bot.found("quarterly budget", embedding=vector(1))[0] == "the quarterly budget is 40000"


@pytest.mark.parametrize("limit", [0, -1, 1001, None])
def test_a_limit_out_of_range_is_an_error_that_states_the_range(
    bot: Caller, limit: int | None
) -> None:
    bot.save("text")
    for act in (
        lambda: bot.search("text", max_results=limit),
        lambda: bot.contents(max_results=limit),
        lambda: bot.reply("search_reply", query="text", max_results=limit),
    ):
        with refused("MP005") as caught:
            act()
        assert "1000" in str(caught.value)


def test_an_unknown_type_is_an_error(bot: Caller) -> None:
    bot.save("text")
    with refused("MP006"):
        bot.search("text", memory_types=["rumour"])


def test_reading_never_writes(bot: Caller, dba: psycopg.Connection) -> None:
    saved = bot.save("text")
    tables = ("memories", "usage", "versions", "requests", "users", "conversations")

    def state() -> list[Any]:
        query = "select t::text, t.xmin::text from memory.{} as t where user_id = %s"
        return [
            dba.execute(query.format(table).encode(), (bot.user,)).fetchall() for table in tables
        ]

    before = state()
    bot.search("text")
    bot.reply("search_reply", query="text")
    bot.contents()
    bot.reply("get", memory_id=saved["id"])
    with bot.connection.transaction():
        bot.connection.execute("set transaction read only")
        assert bot.found("text") == ["text"]
    assert state() == before
