"""Many at once: nothing doubled, nothing lost, no deadlock."""

import random
import threading
import time
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.sql.calling import Caller, allowed, call, scalar, together


def active(caller: Caller) -> int:
    """How many active rows the agent has."""
    with caller.connection.transaction():
        caller.identify()
        return int(
            scalar(caller.connection, "select count(*) from memory.memories where state = 'active'")
        )


@pytest.mark.parametrize("named", [{}, {"idempotency_key": "the same"}, {"conversation_id": "t"}])
def test_r44_twenty_identical_saves_at_once_are_one_row(bot: Caller, named: Any) -> None:
    start = threading.Barrier(20)

    def save(connection: psycopg.Connection, _: int) -> tuple[Any, str]:
        start.wait()
        row = bot.other(connection=connection).save("the very same text", **named)
        return row["id"], row["status"]

    results = together(bot.connection.info.dsn, 20, save)
    assert len({identifier for identifier, _ in results}) == 1
    statuses = [status for _, status in results]
    assert statuses.count("saved") == 1
    rest = "already saved" if "idempotency_key" in named else "reinforced"
    assert statuses.count(rest) == 19
    assert active(bot) == 1


@pytest.mark.parametrize("count", [8, 50])
def test_r25_saves_at_once_are_all_found_by_their_marker(bot: Caller, count: int) -> None:
    start = threading.Barrier(count)

    def save(connection: psycopg.Connection, number: int) -> str:
        start.wait()
        status: str = bot.other(connection=connection).save(f"marker_{number} was here")["status"]
        return status

    assert together(bot.connection.info.dsn, count, save) == ["saved"] * count
    for number in range(count):
        assert bot.found(f"marker_{number}")[0] == f"marker_{number} was here"


def test_first_saves_of_a_new_user_at_once_all_succeed(bot: Caller, user: str) -> None:
    start = threading.Barrier(8)

    def save(connection: psycopg.Connection, number: int) -> str:
        start.wait()
        new = Caller(connection, f"{user}-new", f"agent-{number}")
        status: str = new.save("hello", conversation_id="first")["status"]
        return status

    assert together(bot.connection.info.dsn, 8, save) == ["saved"] * 8


def test_shuffled_batches_of_overlapping_texts_do_not_deadlock(bot: Caller) -> None:
    texts = [f"overlapping text {n}" for n in range(80)]
    start = threading.Barrier(8)

    def save(connection: psycopg.Connection, number: int) -> None:
        chance = random.Random(number)
        start.wait()
        for _ in range(2):
            items: list[object] = [
                {"content": text, "conversation_id": f"talk {chance.randrange(4)}"}
                for text in chance.sample(texts, 60)
            ]
            rows = bot.other(connection=connection).save_list(*items)
            assert {row["status"] for row in rows} <= {"saved", "reinforced"}

    together(bot.connection.info.dsn, 8, save)
    assert active(bot) == 80


def test_shuffled_keys_of_batches_do_not_deadlock(bot: Caller) -> None:
    start = threading.Barrier(6)

    def save(connection: psycopg.Connection, number: int) -> set[str]:
        order = random.Random(number).sample(range(60), 60)
        start.wait()
        items = [{"content": f"keyed {n}", "idempotency_key": f"key {n}"} for n in order]
        return {row["status"] for row in bot.other(connection=connection).save_list(*items)}

    statuses = together(bot.connection.info.dsn, 6, save)
    assert set().union(*statuses) <= {"saved", "already saved"}
    assert active(bot) == 60


def test_saving_forgetting_and_counting_uses_at_once_do_not_deadlock(bot: Caller) -> None:
    texts = [f"contended text {n}" for n in range(40)]
    rows = bot.save_list(*[{"content": text, "tags": ["contended"]} for text in texts])
    bot.save_list(*texts)
    uses = [{"user_id": bot.user, "memory_id": str(row["id"]), "uses": 1} for row in rows]
    until = time.monotonic() + 2
    start = threading.Barrier(6)

    def work(connection: psycopg.Connection, number: int) -> int:
        caller, chance, rounds = bot.other(connection=connection), random.Random(number), 0
        start.wait()
        while time.monotonic() < until:
            rounds += 1
            if number % 3 == 0:
                caller.save_list(*chance.sample(texts, 40))
            elif number % 3 == 1:
                call(connection, "record_uses", uses=Jsonb(chance.sample(uses, 40)))
            elif rounds % 4 == 0:
                caller.call("forget", tags=["contended"])
                caller.save_list(*[{"content": text, "tags": ["contended"]} for text in texts])
            else:
                caller.call("forget", tags=["contended"], dry_run=True)
        return rounds

    assert all(together(bot.connection.info.dsn, 6, work))


def test_a_text_saved_and_forgotten_at_once_is_there_once_or_not_at_all(bot: Caller) -> None:
    until = time.monotonic() + 1

    def work(connection: psycopg.Connection, number: int) -> None:
        caller = bot.other(connection=connection)
        while time.monotonic() < until:
            row = caller.save("now and then")
            if number % 2:
                # another thread may have forgotten it already
                with allowed("MP003"):
                    caller.call("forget", memory_id=row["id"])

    together(bot.connection.info.dsn, 4, work)
    assert active(bot) in (0, 1)
    assert bot.save("now and then")["status"] in ("saved", "reinforced")
    assert active(bot) == 1
