"""Processes that are killed, stopped and started while others save."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from bench.fault_clients import Ledger, call, listed, save_all, wait_until
from bench.fault_world import Server, World

from memphant.postmaster import postmaster_pid

SAVES = 1_000
KILL_AFTER = 300
OUTAGE_SECONDS = 40
BACK_SECONDS = 8
"""Within this time after an outage a save must work again."""


def contents(marker: str, count: int = SAVES) -> list[str]:
    return [f"{marker} number {number} was saved" for number in range(count)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def nothing_lost(record: dict[str, Any]) -> bool:
    return not record["lost"] and not record["doubled"]


def kill9_server(world: World) -> dict[str, Any]:
    """SIGKILL to the server in the middle of the saves; started again at the same port."""
    ledger = Ledger()
    port = free_port()
    with world.serving("kill9_server", port=port) as first:
        seconds: list[Server] = []

        def again() -> None:
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait()
            given = {"port": port, "user": "kill9_server", **world.postgres.urls, **world.model()}
            seconds.append(Server(world.folder, **given))

        try:
            url = first.url
            save_all(url, contents("kill9server"), ledger, meanwhile=again, after=KILL_AFTER)
            record = ledger.check(listed(url))
        finally:
            for second in seconds:
                second.stop()
    return {**record, "passed": nothing_lost(record) and record["acknowledged"] >= 500}


def kill9_postgres(world: World) -> dict[str, Any]:
    """SIGKILL to the postmaster in the middle of the saves; started again at once."""
    ledger = Ledger()

    def again() -> None:
        world.postgres.kill9()
        world.postgres.start()

    with world.serving("kill9_postgres") as server:
        save_all(server.url, contents("kill9postgres"), ledger, meanwhile=again, after=KILL_AFTER)
        record = ledger.check(listed(server.url))
        retries = server.retries
    return {
        **record,
        "statements_retried": retries,
        "passed": nothing_lost(record) and record["acknowledged"] >= 500 and not ledger.errors,
    }


def embedded_revived(world: World) -> dict[str, Any]:
    """SIGKILL to the embedded Postgres: memphant itself starts it again."""
    ledger = Ledger()
    data_dir = world.folder / "revived"
    given = {"port": 0, "data_dir": data_dir, **world.model()}
    server = Server(world.folder, **given).ready()
    try:

        def kill() -> None:
            pid = postmaster_pid(data_dir / "postgres")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

        save_all(server.url, contents("revived", 300), ledger, meanwhile=kill, after=100)
        record = ledger.check(listed(server.url))
        # and while nobody asks for anything
        kill()
        begun = time.monotonic()
        idle = call(server.url, "save_memory", content="after it was killed idle")
        seconds = time.monotonic() - begun
    finally:
        server.stop()
    return {
        **record,
        "killed_idle_s": round(seconds, 2),
        "passed": nothing_lost(record)
        and record["acknowledged"] == 300
        and not ledger.errors
        and "error" not in idle
        and seconds < BACK_SECONDS,
    }


def restart(world: World) -> dict[str, Any]:
    """A fast restart of Postgres while saves and searches run: no error reaches a client."""
    ledger = Ledger()
    over = threading.Event()
    searched: list[str] = []

    def search(url: str) -> None:
        while not over.is_set():
            answer = call(url, "search_memories", query="restart number")
            searched.append(str(answer.get("error", "")))

    with world.serving("restart") as server:
        searchers = [threading.Thread(target=search, args=(server.url,)) for _ in range(4)]
        for thread in searchers:
            thread.start()
        try:
            save_all(
                server.url,
                contents("restart", 600),
                ledger,
                connections=20,
                meanwhile=world.postgres.restart,
                after=200,
            )
        finally:
            over.set()
            for thread in searchers:
                thread.join()
        record = ledger.check(listed(server.url))
        retries = server.retries
    failed = [error for error in searched if error]
    return {
        **record,
        "searches": len(searched),
        "searches_failed": failed[:3],
        "statements_retried": retries,
        "passed": nothing_lost(record)
        and record["acknowledged"] == 600
        and not ledger.errors
        and not failed
        and retries > 0,
    }


def database_down(world: World) -> dict[str, Any]:
    """A database that is away for a while, and how soon its return is noticed."""
    with world.serving("database_down") as server:
        call(server.url, "save_memory", content="before the outage")
        world.postgres.stop()
        stopped = time.monotonic()
        told: list[str] = []
        slowest = 0.0
        health = 0
        while time.monotonic() < stopped + OUTAGE_SECONDS:
            begun = time.monotonic()
            told.append(str(call(server.url, "save_memory", content="during").get("error")))
            slowest = max(slowest, time.monotonic() - begun)
            health = health or _health(server.url)
        world.postgres.restart()
        back = time.monotonic()
        worked = wait_until(
            lambda: "error" not in call(server.url, "save_memory", content="after"), 120
        )
        seconds = time.monotonic() - back
        found = listed(server.url)
        alive = server.alive
    return {
        "told": sorted(set(told)),
        "slowest_s": round(slowest, 2),
        "health": health,
        "back_after_s": round(seconds, 2),
        "found": found,
        "passed": alive
        and health == 503
        and all("cannot be reached" in text for text in told)
        and {"before the outage", "after"} <= set(found),
        "pool_survives_restart": worked and seconds < BACK_SECONDS,
    }


def _health(url: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}/health") as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code if json.load(error)["reasons"] else 0


def two_servers(world: World) -> dict[str, Any]:
    """R27: two server processes on one database, 20 writes each."""
    ledger = Ledger()
    with world.serving("two_servers") as one, world.serving("two_servers") as other:
        threads = [
            threading.Thread(target=save_all, args=(server.url, contents(name, 20), ledger))
            for name, server in (("one", one), ("other", other))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = listed(one.url)
        record = ledger.check(found)
        same = sorted(found) == sorted(listed(other.url))
    return {**record, "passed": nothing_lost(record) and len(found) == 40 and same}
