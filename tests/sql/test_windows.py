"""Times in questions and memories: what filters, what only raises, what an empty window offers."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.sql.calling import Caller

NOW = "2026-05-26T12:00:00Z"


@pytest.fixture(autouse=True)
def clock(owner: psycopg.Connection) -> Iterator[None]:
    """It is Tuesday, 26 May 2026."""
    statement = "update memory.settings set value = %s where name = 'clock.test'"
    owner.execute(statement, (Jsonb(NOW),))
    yield
    owner.execute(statement, (None,))


def contents(reply: dict[str, object]) -> list[str]:
    memories = reply["memories"]
    assert isinstance(memories, list)
    return [memory["content"] for memory in memories]


def test_r11_last_week_holds_only_what_was_said_in_it(bot: Caller) -> None:
    bot.save("we discussed the old budget", occurred_at="2026-05-07T10:00Z")
    bot.save("we discussed the new budget", occurred_at="2026-05-20T10:00Z")
    reply = bot.reply("search_reply", query="what did we discuss last week")
    assert contents(reply) == ["we discussed the new budget"]
    assert reply["searched"]["window"] == {
        "from": "2026-05-18T00:00:00+00:00",
        "to": "2026-05-25T00:00:00+00:00",
        "read_from": "last week",
        "filters": True,
    }


def test_r12_a_tag_and_today_find_all_of_today(bot: Caller) -> None:
    for number in range(20):
        bot.save(f"note number {number}", tags=["X"], occurred_at=f"2026-05-26T0{number % 10}:00Z")
    reply = bot.reply("search_reply", query="today #X", max_results=50)
    assert len(contents(reply)) == 20


def test_a_future_window_holds_what_speaks_of_it_not_what_was_said_in_it(bot: Caller) -> None:
    bot.save("next week I travel to Paris")
    bot.save("the budget is planned")
    reply = bot.reply("search_reply", query="what have I planned for next week")
    assert contents(reply) == ["next week I travel to Paris"]


def test_a_time_that_is_a_detail_only_raises(bot: Caller) -> None:
    bot.save("Melanie painted a lake", occurred_at="2025-07-10T10:00Z")
    bot.save("Melanie painted a horse", occurred_at="2026-02-10T10:00Z")
    reply = bot.reply("search_reply", query="What did Melanie paint in July 2025")
    assert contents(reply) == ["Melanie painted a lake", "Melanie painted a horse"]
    assert reply["searched"]["window"]["filters"] is False


def test_an_empty_window_says_so_and_offers_the_nearest_outside_it_marked(bot: Caller) -> None:
    bot.save("we discussed the roadmap", occurred_at="2026-03-01T10:00Z")
    bot.save("we discussed the hiring plan", occurred_at="2026-05-05T10:00Z")
    reply = bot.reply("search_reply", query="what did we discuss last week")
    assert contents(reply) == ["we discussed the hiring plan", "we discussed the roadmap"]
    assert all(memory["outside_window"] for memory in reply["memories"])
    assert any("last week" in note for note in reply["notes"])


@pytest.mark.parametrize(("zone", "found"), [("UTC", True), ("America/Los_Angeles", False)])
def test_r46_the_day_depends_on_the_callers_time_zone_only(
    bot: Caller, zone: str, found: bool
) -> None:
    bot.save("deployed the parser", occurred_at="2025-07-25T02:00Z")
    reply = bot.reply(
        "search_reply", query="deployed", since="2025-07-25", until="2025-07-25", time_zone=zone
    )
    assert bool(contents(reply)) is found


def test_the_window_of_the_arguments_wins_over_the_querys(bot: Caller) -> None:
    bot.save("we discussed the roadmap", occurred_at="2026-03-01T10:00Z")
    reply = bot.reply("search_reply", query="what did we discuss last week", since="2026-02-01")
    assert contents(reply) == ["we discussed the roadmap"]
    assert "read_from" not in reply["searched"]["window"]


def test_as_of_keeps_what_held_at_that_time(bot: Caller) -> None:
    bot.save("the office is in Berlin", occurred_at="2026-05-01T00:00Z")
    early = bot.reply("search_reply", query="office", as_of="2026-04-01")
    late = bot.reply("search_reply", query="office", as_of="2026-05-02")
    assert (contents(early), contents(late)) == ([], ["the office is in Berlin"])


def test_a_correction_of_the_text_moves_the_time_that_it_speaks_of(bot: Caller) -> None:
    saved = bot.save("the meeting is on 3 June 2026", occurred_at="2026-05-20T10:00Z")
    after = bot.reply("update", memory_id=saved["id"], content="the meeting is on 5 June 2026")
    assert (saved["memory"]["event_from"], after["event_from"]) == (
        "2026-06-03T00:00:00+00:00",
        "2026-06-05T00:00:00+00:00",
    )
