"""Databases that take no writes: read-only mode, a standby; and one that still recovers."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.fault_clients import call, listed, wait_until
from bench.fault_world import World

from memphant.accounts import account_for, binaries
from memphant.database import SERVER


def read_only(world: World) -> dict[str, Any]:
    """A database that turns read-only under the server, and back."""
    with world.serving("read_only") as server:
        call(server.url, "save_memory", content="before it was read-only")
        world.postgres.execute("alter system set default_transaction_read_only = on")
        world.postgres.execute("select pg_reload_conf()")
        try:
            time.sleep(1)
            told = str(call(server.url, "save_memory", content="refused").get("error"))
            found = call(server.url, "search_memories", query="before read-only")
            listing = listed(server.url)
        finally:
            world.postgres.execute("alter system reset default_transaction_read_only")
            world.postgres.execute("select pg_reload_conf()")
        worked = wait_until(
            lambda: "error" not in call(server.url, "save_memory", content="afterwards"), 20
        )
        final = listed(server.url)
    return {
        "told": told,
        "passed": "The database is read-only" in told
        and bool(found.get("memories"))
        and listing == ["before it was read-only"]
        and worked
        and sorted(final) == ["afterwards", "before it was read-only"],
    }


@contextmanager
def _standby(world: World, hot: str = "on") -> Iterator[tuple[Path, dict[str, object]]]:
    """A copy that follows the world's Postgres; unless hot, it lets nobody in until promoted."""
    account = account_for(world.postgres.root / "postgres")
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="standby-", dir=world.folder))
    os.chown(folder, account.uid, account.gid)
    source = world.postgres.running
    copy = [programs / "pg_basebackup", "-D", folder / "data", "-R", "-U", "postgres"]
    copy += ["-h", source.socket_dir, "-p", str(source.port), "-c", "fast"]
    copying = account.spawn([str(part) for part in copy], output=subprocess.DEVNULL)
    assert copying.wait(120) == 0
    options = {
        "unix_socket_directories": str(folder),
        "listen_addresses": "",
        "hot_standby": hot,
        **world.postgres.settings,  # a standby must allow as much as its primary
    }
    command = [str(programs / "postgres"), "-D", str(folder / "data")]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    log = (folder / "log").open("wb")
    process = account.spawn(command, output=log.fileno())
    try:
        assert wait_until((folder / f".s.PGSQL.{source.port}").exists, 60)
        url = f"host={folder} port={source.port} user={SERVER} dbname={source.database}"
        yield folder, {"database_url": url}
    finally:
        log.close()
        process.send_signal(signal.SIGINT)
        process.wait(60)


def standby(world: World) -> dict[str, Any]:
    """A server that is pointed to a hot standby, which is then promoted."""
    with world.serving("standby") as server:
        call(server.url, "save_memory", content="came from the primary")
    with _standby(world) as (folder, urls), world.serving("standby", **urls) as server:
        wait_until(lambda: listed(server.url), 20)
        told = str(call(server.url, "save_memory", content="refused").get("error"))
        found = call(server.url, "search_memories", query="came from the primary")
        _promote(world, folder)
        worked = wait_until(
            lambda: "error" not in call(server.url, "save_memory", content="promoted"), 30
        )
        alive = server.alive
    return {
        "told": told,
        "passed": "The database is read-only" in told
        and bool(found.get("memories"))
        and worked
        and alive,
    }


def database_starting(world: World) -> dict[str, Any]:
    """A server that starts while the database still recovers: it waits."""
    with (
        _standby(world, "off") as (folder, urls),
        world.starting("database_starting", **urls) as server,
    ):
        early = wait_until(lambda: server.url or not server.alive, 4)
        _promote(world, folder)
        server.ready()
        saved = call(server.url, "save_memory", content="after the recovery")
    return {"passed": not early and "error" not in saved}


def _promote(world: World, folder: Path) -> None:
    account = account_for(world.postgres.root / "postgres")
    command = [str(binaries() / "pg_ctl"), "promote", "-D", str(folder / "data")]
    # it is refused until the recovery has begun
    assert wait_until(lambda: account.spawn(command, output=subprocess.DEVNULL).wait(60) == 0, 60)
