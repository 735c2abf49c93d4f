"""Installing while others install, and while others work."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import psycopg
from tests.sql import catalog
from tests.sql.calling import Caller, scalar, together

from memphant import schema

if TYPE_CHECKING:
    from tests.conftest import TestDatabase


def test_twenty_installations_at_once_end_in_one_schema(
    empty: "TestDatabase", installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    ran = together(empty.owner, 20, lambda connection, _: schema.install(connection, options))
    names = [migration.name for migration in schema.migrations()]
    assert sorted(ran, key=len)[-1] == names
    assert ran.count([]) == 19
    with empty.connect(empty.owner) as owner, installed.connect(installed.owner) as reference:
        assert catalog.whole(owner) == catalog.whole(reference)
        assert scalar(owner, "select count(*) from memory.migrations") == len(names)


def test_databases_of_one_cluster_can_be_installed_at_once(
    new_database: Any, options: schema.InstallOptions
) -> None:
    # roles belong to the cluster, so the installations meet there
    databases = [new_database(None) for _ in range(3)]

    def install(number: int) -> list[str]:
        with databases[number].connect(databases[number].owner) as owner:
            ran = schema.install(owner, options)
            schema.check(owner)
            return ran

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(install, range(3)))


def test_an_installation_under_load_disturbs_nobody(
    installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    done = threading.Event()

    def install() -> None:
        try:
            with installed.connect(installed.owner) as owner:
                for _ in range(3):
                    schema.install(owner, options)
        finally:
            done.set()

    def work(connection: psycopg.Connection, number: int) -> int:
        caller, saved = Caller(connection, f"user-{number}"), 0
        while not done.is_set():
            # both in statements of their own and in transactions that touch several tables
            with connection.transaction() if saved % 2 else nullcontext():
                row = caller.save(f"saved under load {saved}", conversation_id="talk")
                saved += 1
                caller.found(f"load {saved}")
                caller.contents()
                caller.reply("update", memory_id=row["id"], tags=["under load"])
        return saved

    with ThreadPoolExecutor(1) as thread:
        installing = thread.submit(install)
        counts = together(installed.server, 4, work)
        installing.result()
    with installed.connect(installed.server) as server:
        for number, saved in enumerate(counts):
            assert saved > 0
            assert len(Caller(server, f"user-{number}").contents(max_results=1000)) == min(
                saved, 1000
            )


def test_an_installation_waits_for_a_long_transaction_without_blocking_others(
    installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    def install() -> list[str]:
        with installed.connect(installed.owner) as owner:
            return schema.install(owner, options)

    with (
        ThreadPoolExecutor(1) as thread,
        installed.connect(installed.dba) as dba,
        installed.connect(installed.server) as server,
    ):
        with dba.transaction():
            dba.execute("select count(*) from memory.memories")
            installing = thread.submit(install)
            for number in range(20):
                Caller(server, "alice").save(f"saved meanwhile {number}")
                time.sleep(0.05)
            assert not installing.done()
        assert installing.result(timeout=30) == []
