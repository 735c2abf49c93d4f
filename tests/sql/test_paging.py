"""Cursors go through everything exactly once, and a reply stays under its limit."""

import random

import pytest
from tests.sql.calling import Caller, ids, refused, scalar, vector

LIMIT = 6000


def pages(caller: Caller, function: str, **named: object) -> list[list[str]]:
    """The ids of each page until there is no further one."""
    found: list[list[str]] = []
    cursor = None
    while True:
        reply = caller.reply(function, cursor=cursor, **named)
        found.append(ids(reply["memories"]))
        tokens = scalar(
            caller.connection, "select memory.estimate_tokens(%s)", str(reply["memories"])
        )
        assert tokens <= LIMIT * 1.1 or len(reply["memories"]) == 1
        cursor = reply["next_cursor"]
        if cursor is None:
            return found
        assert len(found) < 100


@pytest.fixture
def many(bot: Caller) -> Caller:
    """Seventy texts of up to two thousand characters, some at the very same time."""
    chance = random.Random(3)
    items: list[object] = [
        {
            "content": f"paged {n} " + "word " * chance.randrange(400),
            "occurred_at": f"2026-01-01T00:00:00.{chance.choice([1, 123457, 999999]):06}Z",
        }
        for n in range(70)
    ]
    assert {row["status"] for row in bot.save_list(*items)} == {"saved"}
    return bot


def test_a_search_pages_through_everything_exactly_once(many: Caller) -> None:
    for named in ({}, {"recent_first": True}):
        found = pages(many, "search_reply", query="paged", max_results=1000, **named)
        flat = [identifier for page in found for identifier in page]
        assert len(found) > 3
        assert len(flat) == len(set(flat)) == 70
        assert flat == ids(many.search("paged", max_results=1000, **named))


@pytest.mark.parametrize("limit", [1000, 7, 70])
def test_a_list_pages_through_everything_exactly_once(many: Caller, limit: int) -> None:
    flat = [i for page in pages(many, "list_reply", max_results=limit) for i in page]
    assert len(flat) == len(set(flat)) == 70
    assert flat == ids(many.call("list", max_results=1000))


def test_r09_more_results_than_fit_a_reply_are_paged(bot: Caller) -> None:
    bot.fill(400, "'note ' || n || repeat(' filler', 10)", f"'{vector(1)}'")
    found = pages(bot, "search_reply", query="x", embedding=vector(1), max_results=300)
    flat = [identifier for page in found for identifier in page]
    assert len(found) > 3
    assert len(flat) == len(set(flat)) == 300


def test_one_memory_larger_than_a_reply_is_still_shown(bot: Caller) -> None:
    bot.save("大" * 8000, metadata={"k": "v" * 16000})
    bot.save("small 大")
    assert sum(map(len, pages(bot, "search_reply", query="大"))) == 2
    assert sum(map(len, pages(bot, "list_reply"))) == 2


def test_a_cursor_of_another_search_is_refused(many: Caller) -> None:
    cursor = many.reply("search_reply", query="paged", max_results=1000)["next_cursor"]
    for named in (
        {"query": "word"},
        {"query": "paged", "tags": ["a"]},
        {"query": "paged", "min_score": 0.1},
    ):
        with refused("MP005"):
            many.reply("search_reply", max_results=1000, cursor=cursor, **named)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "7", "0-", "'; --", "1_2", "-1", "NaN_x", "9" * 400, "2026-01-01", "\u0661-a"],
)
def test_a_cursor_that_is_none_is_refused(many: Caller, cursor: str) -> None:
    with refused("MP005"):
        many.reply("search_reply", query="paged", cursor=cursor)
    with refused("MP005"):
        many.reply("list_reply", cursor=cursor)


def test_what_is_saved_between_two_pages_of_a_list_moves_nothing(many: Caller) -> None:
    first = many.reply("list_reply", max_results=10)
    many.save("paged later")
    second = many.reply("list_reply", max_results=10, cursor=first["next_cursor"])
    assert not set(ids(first["memories"])) & set(ids(second["memories"]))
    assert len(second["memories"]) == 10
