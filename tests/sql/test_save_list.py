"""Lists: a result per item, limits that are stated, nothing lost because of a neighbour."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.sql.calling import Caller, refused, vector

BAD: dict[str, tuple[str, Any]] = {
    "no object": ("MP005", 7),
    "null": ("MP005", None),
    "a list": ("MP005", ["content"]),
    "no content": ("MP005", {}),
    "content null": ("MP005", {"content": None}),
    "content empty": ("MP005", {"content": ""}),
    "content too long": ("MP005", {"content": "x" * 8001}),
    "unknown field": ("MP005", {"content": "x", "colour": "red"}),
    "unknown type": ("MP006", {"content": "x", "memory_type": "rumour"}),
    "type no text": ("MP006", {"content": "x", "memory_type": {"a": 1}}),
    "unknown source": ("MP006", {"content": "x", "source": "gossip"}),
    "tags no list": ("MP005", {"content": "x", "tags": "a,b"}),
    "tags an object": ("MP005", {"content": "x", "tags": {"a": 1}}),
    "empty tag": ("MP005", {"content": "x", "tags": ["a", " "]}),
    "null tag": ("MP005", {"content": "x", "tags": [None]}),
    "long tag": ("MP005", {"content": "x", "tags": ["t" * 65]}),
    "many tags": ("MP005", {"content": "x", "tags": [f"t{n}" for n in range(33)]}),
    "confidence over 1": ("MP005", {"content": "x", "confidence": 1.01}),
    "confidence negative": ("MP005", {"content": "x", "confidence": -0.1}),
    "confidence no number": ("MP005", {"content": "x", "confidence": "high"}),
    "confidence huge": ("MP005", {"content": "x", "confidence": 10**400}),
    "confidence tiny": ("MP005", {"content": "x", "confidence": "1e-400"}),
    "confidence a list": ("MP005", {"content": "x", "confidence": [0.5]}),
    "confidence NaN": ("MP005", {"content": "x", "confidence": "NaN"}),
    "time no time": ("MP005", {"content": "x", "occurred_at": "yesterday"}),
    "time impossible": ("MP005", {"content": "x", "occurred_at": "2026-02-30"}),
    "time hour 25": ("MP005", {"content": "x", "occurred_at": "2026-02-03T25:00"}),
    "time year 0": ("MP005", {"content": "x", "occurred_at": "0000-01-01"}),
    "time infinite": ("MP005", {"content": "x", "occurred_at": "infinity"}),
    "time offset 99": ("MP005", {"content": "x", "occurred_at": "2026-02-03T10:00+99:00"}),
    "time a number": ("MP005", {"content": "x", "occurred_at": 1770000000}),
    "time trailing": ("MP005", {"content": "x", "occurred_at": "2026-02-03T10:00 Nowhere/City"}),
    "metadata a list": ("MP005", {"content": "x", "metadata": [1]}),
    "metadata text": ("MP005", {"content": "x", "metadata": "k=v"}),
    "metadata large": ("MP005", {"content": "x", "metadata": {"k": "v" * 16384}}),
    "shared no boolean": ("MP005", {"content": "x", "shared": "yes"}),
    "conversation long": ("MP005", {"content": "x", "conversation_id": "c" * 129}),
    "conversation empty": ("MP001", {"content": "x", "conversation_id": ""}),
    "key long": ("MP005", {"content": "x", "idempotency_key": "k" * 129}),
    "key empty": ("MP001", {"content": "x", "idempotency_key": " "}),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_item_is_reported_and_the_others_are_stored(bot: Caller, kind: str) -> None:
    code, item = BAD[kind]
    rows = bot.save_list("before", item, {"content": "after", "tags": ["kept"]})
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert [row["status"] for row in rows] == ["saved", "error", "saved"]
    assert (rows[1]["code"], rows[1]["id"], rows[1]["memory"]) == (code, None, None)
    assert rows[1]["message"]
    assert rows[1]["hint"]
    assert sorted(bot.contents()) == ["after", "before"]


def test_all_kinds_of_bad_items_at_once_leave_the_good_one(bot: Caller) -> None:
    rows = bot.save_list(*[item for _, item in BAD.values()], "good")
    assert [row["code"] for row in rows[:-1]] == [code for code, _ in BAD.values()]
    assert rows[-1]["status"] == "saved"
    assert bot.contents() == ["good"]


def test_fields_that_are_null_are_as_if_not_given(bot: Caller) -> None:
    names = ["memory_type", "tags", "confidence", "source", "occurred_at", "conversation_id"]
    names += ["metadata", "shared", "idempotency_key"]
    (row,) = bot.save_list({"content": "x", **dict.fromkeys(names)})
    assert row["status"] == "saved"
    assert row["memory"]["memory_type"] == "fact"


@pytest.mark.parametrize(
    ("item", "limit"),
    [
        ({"content": "x" * 8001}, "8000"),
        ({"content": "x", "tags": [f"t{n}" for n in range(33)]}, "32"),
        ({"content": "x", "tags": ["t" * 65]}, "64"),
        ({"content": "x", "metadata": {"k": "v" * 16384}}, "16384"),
        ({"content": "x", "conversation_id": "c" * 129}, "128"),
    ],
)
def test_an_error_beyond_a_limit_states_the_limit(bot: Caller, item: object, limit: str) -> None:
    (row,) = bot.save_list(item)
    assert row["code"] == "MP005"
    assert limit in row["message"]


def test_what_just_fits_is_stored(bot: Caller) -> None:
    room = 16384 - len('{"k": ""}')
    item = {
        "content": "ü" * 8000,
        "tags": [f"{n:02}".ljust(64, "ñ") for n in range(32)],
        "metadata": {"k": "v" * room},
        "conversation_id": "c" * 128,
        "idempotency_key": "k" * 128,
    }
    (row,) = bot.save_list(item)
    assert row["status"] == "saved", row["message"]


def test_a_hundred_items_are_stored_and_101_refused(bot: Caller) -> None:
    rows = bot.save_list(*[f"item number {n}" for n in range(100)])
    assert {row["status"] for row in rows} == {"saved"}
    with refused("MP005") as caught:
        bot.save_list(*[f"more number {n}" for n in range(101)])
    assert "100" in str(caught.value)
    assert len(bot.contents(max_results=1000)) == 100


@pytest.mark.parametrize("items", [[], {}, "text", None])
def test_nothing_to_save_is_an_error(bot: Caller, items: object) -> None:
    with refused("MP005"):
        bot.call("save_list", items=Jsonb(items))


def test_the_limits_are_settings(bot: Caller, owner: psycopg.Connection) -> None:
    statement = "update memory.settings set value = %s where name = 'limits.content'"
    owner.execute(statement, (Jsonb(5),))
    try:
        rows = bot.save_list("12345", "123456")
        assert [row["code"] for row in rows] == [None, "MP005"]
        assert "5" in rows[1]["message"]
    finally:
        owner.execute(statement, (None,))


def test_the_same_text_twice_in_one_list_is_one_memory(bot: Caller) -> None:
    rows = bot.save_list("twice", {"content": " twice ", "tags": ["second"]}, "other")
    assert sorted(row["status"] for row in rows) == ["reinforced", "saved", "saved"]
    assert rows[0]["id"] == rows[1]["id"]
    assert rows[1]["memory"]["tags"] == ["second"]


def test_vectors_belong_to_their_items_and_may_be_missing(bot: Caller) -> None:
    vectors = (
        "{" + ",".join(f'"{v}"' if v else "null" for v in (vector(1), None, vector(0, 1))) + "}"
    )
    rows = bot.save_list("first", "second", "third", embeddings=vectors)
    assert [row["memory"].get("embedded", True) for row in rows] == [True, False, True]
    found = bot.search("nothing of the words", embedding=vector(0, 1))
    assert (found[0]["content"], found[0]["vector_score"]) == ("third", 1)
    with refused("MP005"):
        bot.save_list("one", embeddings=vectors)


def test_a_bad_vector_is_the_error_of_its_item(bot: Caller) -> None:
    vectors = '{"' + vector(1) + '","' + vector(1, dimensions=3) + '"}'
    rows = bot.save_list("good", "bad", embeddings=vectors)
    assert [row["code"] for row in rows] == [None, "MP007"]


def test_share_by_default_holds_where_an_item_says_nothing(bot: Caller) -> None:
    rows = bot.save_list("open", {"content": "closed", "shared": False}, share_by_default=True)
    assert [row["memory"]["shared"] for row in rows] == [True, False]
    assert bot.other(agent="peer").contents() == ["open"]
