"""Saves per second through MCP with the bundled model, and whether the server's memory stays flat.

    python -m bench.soak --json FILE [--n 50000]

A server with its embedded Postgres, as `memphant serve` starts it, in a temporary folder: saves one
by one and in lists of 100, then --n saves and as many searches over four connections, with the
server's memory (RSS) after every 1,000.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
from bench.fault_world import Server
from bench.rawmcp import Answer, RawClient

TEXT = (
    "the a my our their user team server train garden kettle report meeting budget violin river "
    "likes wants moved bought finished wrote broke fixed plans visited Monday Paris morning tea "
    "blue green loud quiet early late with without before after because of in on at to 我 喜欢 火车"
)
WORDS = TEXT.split()
CONNECTIONS = 4
EVERY = 1_000
SINGLY, LISTED, LIST = 300, 3_000, 100
GROWTH_MB = 8.0
"""What RSS may grow in the second half of a phase and still be called flat."""

Work = Callable[[RawClient, int], Answer]


def sentence(number: int) -> str:
    """Twelve words, different for every number."""
    return " ".join(random.Random(number).choices(WORDS, k=12)) + f" {number}"


def save(client: RawClient, number: int) -> Answer:
    return client.call("save_memory", content=sentence(number))


def save_list(client: RawClient, number: int) -> Answer:
    first = 10_000_000 + number * LIST
    items = [{"content": sentence(first + n)} for n in range(LIST)]
    return client.call("save_memory", memories=items)


def search(client: RawClient, number: int) -> Answer:
    query = " ".join(random.Random(-number).choices(WORDS, k=5))
    return client.call("search_memories", query=query)


def run(
    url: str, work: Work, numbers: range, connections: int, at: Callable[[int], None] | None = None
) -> float:
    """Seconds for all of it; calls `at` with the number of calls done, after every 1,000."""
    waiting = iter(numbers)
    guard = threading.Lock()
    done = 0
    failures: list[str] = []

    def loop() -> None:
        nonlocal done
        with RawClient(url) as client:
            while True:
                with guard:
                    number = next(waiting, None)
                if number is None:
                    return
                answer = work(client, number)
                with guard:
                    if answer.is_error:
                        failures.append(answer.text)
                    done += 1
                    if at is not None and done % EVERY == 0:
                        at(done)

    threads = [threading.Thread(target=loop) for _ in range(connections)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(f"{len(failures)} calls failed: {failures[0]}")
    return time.monotonic() - begun


def verdict(samples: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """The slope of RSS over the second half, by least squares."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return {"flat": None, "reason": "too few samples"}
    mean_x = sum(x for x, _ in half) / len(half)
    mean_y = sum(y for _, y in half) / len(half)
    spread = sum((x - mean_x) ** 2 for x, _ in half)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in half) / spread
    growth = slope * (half[-1][0] - half[0][0])
    return {
        "mb_per_10000": round(slope * 10_000, 2),
        "growth_mb": round(growth, 2),
        "first_mb": samples[0][1],
        "last_mb": samples[-1][1],
        "flat": growth < GROWTH_MB,
    }


def phase(url: str, server: psutil.Process, work: Work, n: int) -> dict[str, Any]:
    """n calls, and the memory along the way."""
    samples: list[tuple[int, float]] = []

    def sample(done: int) -> None:
        samples.append((done, round(server.memory_info().rss / 2**20, 1)))
        print(f"{work.__name__} {done}: {samples[-1][1]} MB", file=sys.stderr, flush=True)

    seconds = run(url, work, range(n), CONNECTIONS, sample)
    return {
        "calls": n,
        "per_second": round(n / seconds, 1),
        "rss_mb": samples,
        **verdict(samples),
    }


def measure(url: str, server: psutil.Process, n: int) -> dict[str, Any]:
    """Rates first, in a server that has warmed up; then the long run."""
    run(url, save, range(20_000_000, 20_000_020), 1)
    rates = {}
    for connections in (1, CONNECTIONS):
        first = 30_000_000 + connections * 1_000_000
        seconds = run(url, save, range(first, first + SINGLY), connections)
        rates[f"singly_{connections}_connections"] = round(SINGLY / seconds, 1)
    seconds = run(url, save_list, range(LISTED // LIST), 1)
    rates[f"in_lists_of_{LIST}"] = round(LISTED / seconds, 1)
    saves = phase(url, server, save, n)
    searches = phase(url, server, search, n)
    return {"saves_per_second": rates, "saves": saves, "searches": searches}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--n", type=int, default=50_000, metavar="N")
    given = parser.parse_args()
    # ended like by Ctrl-C, so that no process stays behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="memphant-soak-"))
    folder.chmod(0o755)  # as root, Postgres runs under another account
    try:
        server = Server(folder, port=0, data_dir=folder / "data")
        try:
            url = server.ready().url
            result = measure(url, psutil.Process(server.process.pid), given.n)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    flat = result["saves"]["flat"] and result["searches"]["flat"]
    result |= {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "flat": flat}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(result, ensure_ascii=False) + "\n")
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
