"""Statements on a database that breaks: what is run again, what is not, what callers are told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.conftest import TestDatabase
from tests.server.cutting_proxy import CuttingProxy

from memphant import pool
from memphant.errors import UNAVAILABLE, MemphantError
from memphant.store import Principal, Store

ALICE = Principal("alice", "bot")
NOTHING: dict[str, Any] = dict.fromkeys(
    (
        "content",
        "memory_type",
        "tags",
        "confidence",
        "confirmed",
        "shared",
        "occurred_at",
        "metadata",
    )
)
FORGET: dict[str, Any] = dict.fromkeys(
    ("memory_id", "days_older_than", "memory_types", "tags", "below_confidence")
) | {"dry_run": False, "purge": False}


@asynccontextmanager
async def opened(conninfo: str, size: int = 2) -> AsyncIterator[Store]:
    store = Store(conninfo, size)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(database: TestDatabase) -> AsyncIterator[Store]:
    async with opened(database.server) as store:
        yield store


async def save(store: Store, content: str, **fields: Any) -> tuple[UUID, str]:
    (item,) = await store.save_list(ALICE, [{"content": content, **fields}], [None])
    assert item.id is not None, item
    return item.id, item.status


async def contents(store: Store) -> list[str]:
    return [memory["content"] for memory in await store.newest(ALICE, 100)]


def end_sessions(database: TestDatabase) -> int:
    """Ends every session of a server on the database, as a restart does."""
    with psycopg.connect(database.admin, autocommit=True) as admin:
        return admin.execute(
            """select pg_terminate_backend(a.pid) from pg_stat_activity as a
            where a.datname = %s and a.application_name = 'memphant'""",
            (database.name,),
        ).rowcount


def alter(database: TestDatabase, change: LiteralString) -> None:
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute(
            sql.SQL("alter database {} ").format(sql.Identifier(database.name)) + sql.SQL(change)
        )


async def test_idle_connections_that_were_ended_are_replaced_unnoticed(
    store: Store, database: TestDatabase
) -> None:
    await save(store, "before")
    for number in range(3):
        assert end_sessions(database) >= 1
        await save(store, f"after {number}")
    assert len(await contents(store)) == 4


async def test_a_save_whose_answer_was_lost_is_run_again_and_is_one_row(
    database: TestDatabase,
) -> None:
    async with CuttingProxy(database.server) as proxy, opened(proxy.conninfo) as store:
        proxy.cut("memory.save_list")
        _, status = await save(store, "said once")
        assert proxy.cuts == 1
        assert status == "reinforced"  # by itself: it had happened
        assert await contents(store) == ["said once"]
        proxy.cut("memory.save_list")
        _, status = await save(store, "with a key", idempotency_key="k")
        assert (proxy.cuts, status) == (2, "already saved")
        assert sorted(await contents(store)) == ["said once", "with a key"]


async def test_a_list_whose_answer_was_lost_is_stored_once(database: TestDatabase) -> None:
    items = [{"content": f"turn {n}", "conversation_id": "talk"} for n in range(10)]
    async with CuttingProxy(database.server) as proxy, opened(proxy.conninfo) as store:
        proxy.cut("memory.save_list")
        saved = await store.save_list(ALICE, items, [None] * 10)
        assert {item.status for item in saved} == {"reinforced"}
        assert sorted(await contents(store)) == sorted(item["content"] for item in items)


async def test_a_search_whose_answer_was_lost_is_run_again(database: TestDatabase) -> None:
    async with CuttingProxy(database.server) as proxy, opened(proxy.conninfo) as store:
        await save(store, "found all the same")
        proxy.cut("memory.list_reply")
        assert await contents(store) == ["found all the same"]
        assert proxy.cuts == 1


async def test_a_change_whose_answer_was_lost_is_made_once_and_called_unknown(
    database: TestDatabase,
) -> None:
    async with CuttingProxy(database.server) as proxy, opened(proxy.conninfo) as store:
        memory_id, _ = await save(store, "the old text")
        proxy.cut("memory.update")
        with pytest.raises(MemphantError, match="whether the change was made is unknown") as told:
            await store.update(ALICE, memory_id, None, **{**NOTHING, "content": "the new text"})
        assert told.value.code == UNAVAILABLE
        assert [v.memory["content"] for v in await store.history(ALICE, memory_id)] == [
            "the new text",
            "the old text",
        ]
        proxy.cut("memory.forget_reply")
        with pytest.raises(MemphantError, match="unknown"):
            await store.forget(ALICE, **{**FORGET, "memory_id": memory_id})
        assert await contents(store) == []
        proxy.cut("memory.restore")
        with pytest.raises(MemphantError, match="unknown"):
            await store.restore(ALICE, memory_id)
        assert await contents(store) == ["the new text"]
        assert proxy.cuts == 3


async def test_an_update_that_surely_did_not_happen_is_run_again(
    store: Store, database: TestDatabase
) -> None:
    memory_id, _ = await save(store, "the old text")
    with database.connect(database.owner) as owner, owner.transaction():
        # it waits for this lock when its session is ended
        owner.execute("lock table memory.memories in share mode")
        updating = asyncio.create_task(
            store.update(ALICE, memory_id, None, **{**NOTHING, "content": "the new text"})
        )
        await asyncio.to_thread(wait_for_lock, database)
        assert end_sessions(database) >= 1
    assert (await updating)["content"] == "the new text"
    assert [version.version for version in await store.history(ALICE, memory_id)] == [2, 1]


def wait_for_lock(database: TestDatabase) -> None:
    with psycopg.connect(database.admin, autocommit=True) as admin:
        for _ in range(500):
            if admin.execute(
                """select 1 from pg_stat_activity as a
                where a.datname = %s and a.application_name = 'memphant'
                    and a.wait_event_type = 'Lock'""",
                (database.name,),
            ).fetchone():
                return
            admin.execute("select pg_sleep(0.02)")
    raise AssertionError("nobody waited for the lock")


async def test_a_read_only_database_is_named_and_works_again_without_a_restart(
    store: Store, database: TestDatabase
) -> None:
    await save(store, "before")
    alter(database, "set default_transaction_read_only = on")
    end_sessions(database)
    with pytest.raises(MemphantError, match="The database is read-only") as told:
        await save(store, "refused")
    assert told.value.code == "25006"
    assert await contents(store) == ["before"]
    alter(database, "reset default_transaction_read_only")
    await asyncio.sleep(pool.RENEW_SECONDS)
    await save(store, "after")
    assert sorted(await contents(store)) == ["after", "before"]


async def test_a_missing_schema_is_named(
    new_database: Callable[[str | None], TestDatabase],
) -> None:
    empty = new_database(None)
    async with opened(empty.server) as store:
        with pytest.raises(MemphantError, match="memphant install"):
            await save(store, "nowhere")
        # and it is noticed when the installer has run
        await store.ping()


async def test_a_database_that_is_away_is_told_from_a_busy_one(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.5)
    away = Store(make_conninfo("host=127.0.0.1 port=9 user=x dbname=x"))
    with pytest.raises(MemphantError, match="The database cannot be reached") as told:
        await away.open()
    assert told.value.code == UNAVAILABLE
    async with opened(database.server, size=1) as store:
        with database.connect(database.owner) as owner, owner.transaction():
            owner.execute("lock table memory.users in access exclusive mode")
            waiting = asyncio.create_task(save(store, "patient"))
            await asyncio.to_thread(wait_for_lock, database)
            with pytest.raises(MemphantError, match="gives no connection in time") as told:
                await store.ping()
            assert told.value.code == UNAVAILABLE
        await waiting
        assert await contents(store) == ["patient"]
