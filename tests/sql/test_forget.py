"""Forgetting: own rows, protected types, one condition at least, a grace period."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.sql.calling import Caller, call, refused, scalar, vector

Clock = Callable[[str], None]


def gone(caller: Caller, **named: object) -> list[str]:
    """The contents that a bulk form takes away."""
    return sorted(row["content"] for row in caller.call("forget", **named))


@pytest.fixture
def assorted(bot: Caller, clock: Clock) -> Caller:
    """Memories of every kind; it is 2026-07-01."""
    clock("2026-07-01T00:00Z")
    bot.save_list(
        {"content": "old fact", "occurred_at": "2026-01-01", "tags": ["a"]},
        {"content": "new fact", "occurred_at": "2026-06-30", "tags": ["a", "b"]},
        {"content": "weak fact", "occurred_at": "2026-06-30", "confidence": 0.2},
        {"content": "likes tea", "memory_type": "user_preference", "occurred_at": "2026-01-01"},
        {"content": "weak taste", "memory_type": "user_preference", "confidence": 0.1},
        {"content": "the essence", "memory_type": "summary", "occurred_at": "2026-01-01"},
        {"content": "a plan", "memory_type": "plan", "occurred_at": "2026-01-01", "tags": ["a"]},
    )
    bot.other(agent="peer").save("of a peer", shared=True, occurred_at="2026-01-01", tags=["a"])
    return bot


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"days_older_than": 100}, ["a plan", "old fact"]),
        ({"tags": ["a"]}, ["a plan", "new fact", "old fact"]),
        ({"tags": ["a", "b"]}, ["new fact"]),
        ({"below_confidence": 0.5}, ["weak fact"]),
        ({"below_confidence": 0.2}, []),
        ({"memory_types": ["user_preference"]}, ["likes tea", "weak taste"]),
        ({"memory_types": ["summary", "plan"]}, ["a plan", "the essence"]),
        ({"memory_types": ["user_preference"], "below_confidence": 0.5}, ["weak taste"]),
        ({"tags": ["a"], "days_older_than": 100, "memory_types": ["fact"]}, ["old fact"]),
        ({"tags": ["A"]}, []),
        ({"days_older_than": 10000}, []),
    ],
)
def test_a_bulk_form_takes_own_rows_that_meet_every_condition(
    assorted: Caller, named: dict[str, Any], expected: list[str]
) -> None:
    everything = set(assorted.contents())
    assert gone(assorted, **named, dry_run=True) == expected
    assert set(assorted.contents()) == everything
    assert gone(assorted, **named) == expected
    assert set(assorted.contents()) == everything - set(expected)
    assert gone(assorted, **named) == []


def test_protected_types_go_only_when_they_are_named(assorted: Caller) -> None:
    gone(assorted, days_older_than=0, below_confidence=1)
    gone(assorted, days_older_than=0)
    kept = {"likes tea", "weak taste", "the essence", "of a peer"}
    assert set(assorted.contents()) - {"weak taste"} == kept - {"weak taste"}
    assert "weak taste" in assorted.contents()


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("MP010", {}),
        ("MP010", {"dry_run": True}),
        ("MP010", {"purge": True}),
        ("MP010", {"tags": []}),
        ("MP010", {"memory_types": []}),
        ("MP010", {"memory_types": ["fact"], "tags": []}),
        ("MP006", {"memory_types": ["rumour"]}),
        ("MP005", {"days_older_than": -1}),
    ],
)
def test_without_a_condition_nothing_is_forgotten(
    bot: Caller, code: str, named: dict[str, object]
) -> None:
    bot.save("kept")
    with refused(code):
        bot.call("forget", **named)
    assert bot.contents() == ["kept"]


def test_an_id_and_a_condition_together_are_refused(bot: Caller) -> None:
    saved = bot.save("kept")
    with refused("MP010"):
        bot.call("forget", memory_id=saved["id"], days_older_than=1)


def test_a_protected_memory_goes_by_its_id(bot: Caller) -> None:
    saved = bot.save("likes tea", memory_type="user_preference")
    assert gone(bot, memory_id=saved["id"], dry_run=True) == ["likes tea"]
    assert bot.contents() == ["likes tea"]
    assert gone(bot, memory_id=saved["id"]) == ["likes tea"]
    assert bot.contents() == []
    with refused("MP003"):
        bot.call("forget", memory_id=saved["id"])


def test_what_is_forgotten_is_found_by_nothing(bot: Caller) -> None:
    saved = bot.save("the password is xylograph", embedding=vector(1), tags=["secret"])
    bot.call("forget", memory_id=saved["id"])
    assert bot.search("xylograph") == []
    assert bot.search("xylograph", embedding=vector(1)) == []
    assert bot.search("password", tags=["secret"]) == []
    assert bot.contents() == []
    with refused("MP003"):
        bot.reply("get", memory_id=saved["id"])
    with bot.connection.transaction():
        bot.identify()
        assert scalar(bot.connection, "select count(*) from memory.words") == 0


def test_the_reply_counts_and_shows_the_first_twenty(bot: Caller) -> None:
    bot.save_list(*[f"number {n}" for n in range(25)])
    reply = bot.reply("forget_reply", days_older_than=0, memory_types=["fact"], dry_run=True)
    assert (reply["forgotten"], reply["would_forget"], len(reply["memories"])) == (0, 25, 20)
    assert len(bot.contents(max_results=100)) == 25
    reply = bot.reply("forget_reply", memory_types=["fact"])
    assert (reply["forgotten"], reply["would_forget"], len(reply["memories"])) == (25, 0, 20)
    reply = bot.reply("forget_reply", memory_types=["fact"])
    assert (reply["forgotten"], reply["memories"]) == (0, [])
    assert reply["notes"]


def test_r24_forgetting_everything_of_one_user_leaves_the_others(bot: Caller, user: str) -> None:
    users = [bot.other(user=f"{user}-{n}") for n in range(3)]
    for one in users:
        one.fill(250, "'row ' || n")
    users[0].call("forget", memory_types=["fact"])
    assert [len(one.contents(max_results=1000)) for one in users] == [0, 250, 250]


def test_only_what_was_forgotten_before_the_grace_period_is_purged(
    bot: Caller, clock: Clock, dba: psycopg.Connection
) -> None:
    def rows() -> list[str]:
        found = dba.execute(
            "select content from memory.memories where user_id = %s order by content", (bot.user,)
        ).fetchall()
        return [content for (content,) in found]

    clock("2026-07-01T00:00Z")
    kept = bot.save("kept", memory_type="task_context", occurred_at="2020-01-01")
    first, second = bot.save("first"), bot.save("second")
    bot.call("forget", memory_id=first["id"])
    clock("2026-07-02T00:00Z")
    bot.call("forget", memory_id=second["id"])
    clock("2026-07-30T23:59Z")
    call(bot.connection, "purge")
    assert rows() == ["first", "kept", "second"]
    clock("2026-07-31T00:01Z")
    due = {row["what"]: row["rows"] for row in call(bot.connection, "purge", dry_run=True)}
    assert due["forgotten memories"] >= 1
    assert rows() == ["first", "kept", "second"]
    call(bot.connection, "purge")
    assert rows() == ["kept", "second"]
    clock("2026-08-01T00:01Z")
    call(bot.connection, "purge")
    assert rows() == ["kept"]
    assert bot.reply("get", memory_id=kept["id"])["content"] == "kept"


def test_a_purge_leaves_no_trace_of_the_memory_in_any_table(
    bot: Caller, dba: psycopg.Connection
) -> None:
    for _ in range(2):
        saved = bot.save("to be purged", idempotency_key="k", tags=["t"])
        bot.save("to be purged")
    bot.reply("update", memory_id=saved["id"], content="purged for good")
    bot.call("forget", memory_id=saved["id"], purge=True)
    for table in ("memories", "words", "usage", "requests", "embedding_queue", "versions"):
        query = f"select count(*) from memory.{table} where user_id = %s"
        assert scalar(dba, query, bot.user) == 0, table
    with refused("MP003"):
        bot.reply("restore", memory_id=saved["id"])
