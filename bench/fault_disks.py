"""A file system that fills up, under an ordinary Postgres and under the embedded one."""

from __future__ import annotations

import os
import random
import signal
import string
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.fault_clients import Ledger, call, listed, save_all, wait_until
from bench.fault_crashes import nothing_lost
from bench.fault_world import Postgres, Server, World

from memphant.postmaster import postmaster_pid

DISK_MB = 220
LEFT_MB = 3
REFUSALS = 300
"""What is refused goes to the log of transactions all the same, and may fill that as well."""


@contextmanager
def _small_disk(world: World, name: str) -> Iterator[Path]:
    disk = world.folder / name
    disk.mkdir()
    disk.chmod(0o755)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        raise RuntimeError(f"there is no file system to fill: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def _fill(disk: Path, left_mb: int) -> Path:
    """Leaves so much room, and returns the file to remove."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    with ballast.open("wb") as file:
        for _ in range(room.f_bavail * room.f_frsize // 2**20 - left_mb):
            file.write(bytes(2**20))
    return ballast


def full_disk(world: World) -> dict[str, Any]:
    """Saves while the file system of an ordinary Postgres is full, and when there is room again."""
    small = {"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB"}
    ledger = Ledger()
    with _small_disk(world, "disk") as disk:
        postgres = Postgres(disk / "data", small)
        try:
            postgres.install(1)
            with world.serving("full_disk", **postgres.urls) as server:
                save_all(server.url, [_long(n) for n in range(20)], ledger, connections=4)
                postgres.execute("checkpoint")
                postgres.execute("select pg_switch_wal()")
                save_all(server.url, ["the last before"], ledger)
                ballast = _fill(disk, LEFT_MB)
                told, crashed = _refused(server.url, postgres, ledger)
                read = {} if crashed else call(server.url, "list_memories", limit=1)
                alive = server.alive
                ballast.unlink()
                if crashed:
                    postgres.start()
                worked = wait_until(lambda: _saved(server.url, "there is room", ledger), 60)
                record = ledger.check(listed(server.url))
        finally:
            postgres.stop()
    return {
        **record,
        "told": told,
        "postgres_crashed": crashed,
        "passed": nothing_lost(record)
        and "disk is full" in next(iter(told), "")
        and worked
        and alive
        and "error" not in read,
    }


def _refused(url: str, postgres: Postgres, ledger: Ledger) -> tuple[dict[str, int], bool]:
    """Saves on until enough were refused; what was said, and whether Postgres has ended."""
    told: dict[str, int] = {}
    for number in range(20, 1000):
        content = _long(number)
        answer = call(url, "save_memory", content=content)
        if "error" not in answer:
            ledger.acknowledged[content] = answer["results"][0]["memory"]["id"]
            continue
        told[answer["error"]] = told.get(answer["error"], 0) + 1
        if postmaster_pid(postgres.root / "postgres") is None:
            return told, True
        if told[answer["error"]] >= REFUSALS:
            break
    return told, False


def full_disk_embedded(world: World) -> dict[str, Any]:
    """The embedded Postgres is killed on a full disk: it cannot recover until there is room."""
    ledger = Ledger()
    with _small_disk(world, "small") as disk:
        server = Server(world.folder, port=0, data_dir=disk / "data", **world.model()).ready()
        try:
            save_all(server.url, [_long(n) for n in range(10)], ledger, connections=4)
            ballast = _fill(disk, 0)
            (disk / "the rest").write_bytes(bytes(os.statvfs(disk).f_bavail * 4096))
            pid = postmaster_pid(disk / "data" / "postgres")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            told = [
                call(server.url, "save_memory", content=_long(100 + n)).get("error", "saved")
                for n in range(3)
            ]
            ballast.unlink()
            worked = wait_until(lambda: _saved(server.url, "there is room", ledger), 60)
            found = [text for text in listed(server.url) if text not in map(_long, range(100, 103))]
            record = ledger.check(found)
            alive = server.alive
        finally:
            server.stop()
    return {
        **record,
        "told": told,
        "passed": nothing_lost(record)
        and worked
        and alive
        and any("disk is full" in text.lower() for text in told),
    }


def _saved(url: str, content: str, ledger: Ledger) -> bool:
    answer = call(url, "save_memory", content=content)
    if "error" not in answer:
        ledger.acknowledged[content] = answer["results"][0]["memory"]["id"]
    return "error" not in answer


def _long(number: int) -> str:
    chance = random.Random(number)
    words = ("".join(chance.choices(string.ascii_lowercase, k=9)) for _ in range(700))
    return f"text {number} {' '.join(words)}"
