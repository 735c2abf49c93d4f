"""An embedding endpoint that is away, slow, silent, wrong or busy."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
from bench.fault_clients import call, wait_until
from bench.fault_world import Server, World
from tests.server.embedding_endpoint import (
    Behaviour,
    Dimensions,
    EmbeddingEndpoint,
    Limit,
    Slow,
    Status,
    good,
    hanging,
    truncated,
)

TIMEOUT = 2
LATE = 1.5
"""What a busy machine may add to the configured time-out."""
ROWS = 60


def _embedded(world: World, user: str) -> Callable[[], bool]:
    """Whether every memory of a user has its vector."""

    def all_have() -> bool:
        with psycopg.connect(world.postgres.superuser) as connection:
            row = connection.execute(
                "select bool_and(embedding is not null) from memory.memories where user_id = %s",
                (user,),
            ).fetchone()
        return bool(row and row[0])

    return all_have


def _unembedded(
    world: World, name: str, fault: Callable[[], None], repair: Callable[[], None]
) -> dict[str, Any]:
    """A save and a search while the fault lasts; what the worker does after it."""
    with world.serving(name, embedding_timeout_s=TIMEOUT, embedding_retries=1) as server:
        fault()
        begun = time.monotonic()
        reply = call(server.url, "save_memory", content="a lighthouse on the northern cape")
        seconds = time.monotonic() - begun
        found = call(server.url, "search_memories", query="northern lighthouse")
        blocked = _slowest_other(server)
        repair()
        embedded = wait_until(_embedded(world, name), 60)
        later = call(server.url, "search_memories", query="northern lighthouse", explain=True)
        alive = server.alive
    memory = reply["results"][0]["memory"] if "results" in reply else {}
    return {
        "save_s": round(seconds, 2),
        "slowest_other_s": round(blocked, 2),
        "notes": reply.get("notes"),
        "search_notes": found.get("notes"),
        "passed": alive
        and memory.get("embedded") is False
        and any("saved without a vector" in note for note in reply["notes"])
        and [m["content"] for m in found["memories"]] == ["a lighthouse on the northern cape"]
        and found["searched"]["arms"] == ["keywords"]
        and seconds < TIMEOUT + LATE
        and blocked < LATE
        and embedded
        and "vector" in later["memories"][0]["arms"],
    }


def _slowest_other(server: Server) -> float:
    """How long others wait that need no vector, while a save waits for one."""
    saving = threading.Thread(
        target=call, args=(server.url, "save_memory"), kwargs={"content": "it waits"}
    )
    saving.start()
    slowest = 0.0
    for _ in range(5):
        begun = time.monotonic()
        call(server.url, "list_memories", limit=1)
        urllib.request.urlopen(f"{server.url}/health").close()
        slowest = max(slowest, time.monotonic() - begun)
    saving.join()
    return slowest


def _behaving(world: World, name: str, behaviour: Behaviour) -> dict[str, Any]:
    return _unembedded(
        world,
        name,
        lambda: world.endpoint.always(behaviour),
        lambda: world.endpoint.always(good),
    )


def endpoint_down(world: World) -> dict[str, Any]:
    """Nobody listens at its port."""
    port = world.endpoint.port

    def gone() -> None:
        world.endpoint.__exit__(None, None, None)

    def back() -> None:
        world.endpoint = EmbeddingEndpoint(world.endpoint.dimensions, port)
        world.endpoint.__enter__()

    return _unembedded(world, "endpoint_down", gone, back)


def endpoint_hanging(world: World) -> dict[str, Any]:
    """It takes the request and never answers."""
    return _behaving(world, "endpoint_hanging", hanging)


def endpoint_slow(world: World) -> dict[str, Any]:
    """It takes a second for each answer: that is waited for."""
    world.endpoint.always(Slow(1))
    try:
        with world.serving("endpoint_slow") as server:
            reply = call(server.url, "save_memory", content="a slow but steady tortoise")
            blocked = _slowest_other(server)
            found = call(server.url, "search_memories", query="tortoise")
    finally:
        world.endpoint.always(good)
    return {
        "slowest_other_s": round(blocked, 2),
        "passed": "embedded" not in reply["results"][0]["memory"]
        and reply["notes"] == []
        and "vector" in found["searched"]["arms"]
        and blocked < LATE,
    }


def endpoint_wrong_dimensions(world: World) -> dict[str, Any]:
    """Its vectors have another length than the database holds."""
    return _behaving(world, "endpoint_wrong_dimensions", Dimensions(24))


def endpoint_truncated(world: World) -> dict[str, Any]:
    """It returns a vector too few."""
    return _behaving(world, "endpoint_truncated", truncated)


def endpoint_rate_limited(world: World) -> dict[str, Any]:
    """429, to come back in three seconds."""
    return _behaving(world, "endpoint_rate_limited", Status(429, retry_after="3"))


def endpoint_short(world: World) -> dict[str, Any]:
    """A text longer than the model takes is embedded in windows, and the reply says so."""
    world.endpoint.always(Limit(400))
    try:
        with world.serving("endpoint_short") as server:
            reply = call(server.url, "save_memory", content="many words about boats " * 50)
    finally:
        world.endpoint.always(good)
    result = reply["results"][0]
    return {
        "note": result.get("note"),
        "passed": "windows, averaged" in result.get("note", "")
        and "embedded" not in result["memory"],
    }


def two_workers(world: World) -> dict[str, Any]:
    """Two servers embed what was saved without vectors, and no text twice."""
    world.endpoint.always(Status(500))
    with (
        world.serving("two_workers", embedding_retries=0) as one,
        world.serving("two_workers", embedding_retries=0) as other,
    ):
        for number, server in enumerate([one, other] * (ROWS // 2)):
            call(server.url, "save_memory", content=f"unembedded number {number}")
        before = len(world.endpoint.requests)
        world.endpoint.always(good)
        embedded = wait_until(_embedded(world, "two_workers"), 60)
        texts = Counter(text for r in world.endpoint.requests[before:] for text in r.texts)
    asked = [texts[f"unembedded number {number}"] for number in range(ROWS)]
    return {"asked_twice": sum(n > 1 for n in asked), "passed": embedded and set(asked) == {1}}


def start_without_endpoint(world: World) -> dict[str, Any]:
    """A server that starts while the endpoint is away, on a database that knows the model."""
    world.endpoint.always(Status(500))
    try:
        with world.serving("start_without_endpoint", embedding_retries=0) as server:
            reply = call(server.url, "save_memory", content="the endpoint was away")
    finally:
        world.endpoint.always(good)
    return {"passed": reply["results"][0]["memory"].get("embedded") is False}
