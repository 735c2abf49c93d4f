"""Clients that save over many connections, try again, and keep count of what they were told."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.rawmcp import RawClient, RefusedError

RETRY_SECONDS = 60
"""How long a client goes on trying when the server is gone."""


@dataclass
class Ledger:
    """What clients sent, and what they were told."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def check(self, found: list[str]) -> dict[str, Any]:
        """Everything that was listed afterwards, against what was acknowledged."""
        return {
            "acknowledged": len(self.acknowledged),
            "found": len(found),
            "lost": len(self.acknowledged.keys() - set(found)),
            "doubled": len(found) - len(set(found)),
            "errors": dict(self.errors),
            "slowest_s": round(self.slowest, 2),
        }


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def call(url: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """One call over a connection of its own. A refusal is {"error": its text}."""
    with RawClient(url) as client:
        answer = client.call(tool, **arguments)
    return {"error": answer.text} if answer.is_error else answer.structured


def listed(url: str) -> list[str]:
    """The contents of every memory."""
    contents: list[str] = []
    with RawClient(url) as client:
        cursor = ""
        while True:
            answer = client.call("list_memories", limit=1000, cursor=cursor)
            assert not answer.is_error, answer.text
            contents += [memory["content"] for memory in answer.structured["memories"]]
            cursor = answer.structured["next_cursor"] or ""
            if not cursor:
                return contents


def save_all(
    url: str,
    contents: list[str],
    ledger: Ledger,
    connections: int = 50,
    meanwhile: Callable[[], None] | None = None,
    after: int = 0,
) -> None:
    """Saves everything over many connections; calls `meanwhile` when `after` are acknowledged.

    A client whose connection breaks tries the same save again, as agents do.
    """
    waiting = list(reversed(contents))
    guard = threading.Lock()

    def work() -> None:
        while True:
            with guard:
                if not waiting:
                    return
                content = waiting.pop()
            begun = time.monotonic()
            answer = _persistent(url, content)
            with guard:
                ledger.slowest = max(ledger.slowest, time.monotonic() - begun)
                if "error" in answer:
                    ledger.errors[answer["error"]] += 1
                else:
                    ledger.acknowledged[content] = answer["results"][0]["memory"]["id"]

    threads = [threading.Thread(target=work) for _ in range(min(connections, len(contents)))]
    for thread in threads:
        thread.start()
    if meanwhile is not None:
        wait_until(lambda: len(ledger.acknowledged) >= after or not waiting, 300)
        meanwhile()
    for thread in threads:
        thread.join()


def _persistent(url: str, content: str) -> dict[str, Any]:
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return call(url, "save_memory", content=content)
        except (OSError, RefusedError, RuntimeError) as error:
            if time.monotonic() > deadline:
                return {"error": f"no answer: {type(error).__name__}"}
            time.sleep(0.2)
