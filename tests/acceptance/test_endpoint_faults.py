"""What clients see while the embedding endpoint fails, and what the workers do afterwards."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from tests.acceptance.conftest import (
    Agent,
    NewDatabase,
    Serve,
    ServerProcess,
    connected,
    launch,
    run,
    urls,
    wait_until,
)
from tests.conftest import TestDatabase
from tests.server.embedding_endpoint import (
    Behaviour,
    Dimensions,
    EmbeddingEndpoint,
    Limit,
    Reply,
    Request,
    Slow,
    Status,
    good,
    hanging,
    truncated,
)

T = TypeVar("T")
TIMEOUT = 1.5


@dataclass
class World:
    """An endpoint, and a database that holds its model's vectors."""

    endpoint: EmbeddingEndpoint
    database: TestDatabase
    settings: dict[str, object]

    def embedded(self, *contents: str) -> Callable[[], bool]:
        """Whether all of these have their vector."""

        def all_have() -> bool:
            with psycopg.connect(self.database.dba) as dba:
                rows = dba.execute(
                    "select content from memory.memories where embedding is not null"
                ).fetchall()
            return set(contents) <= {row[0] for row in rows}

        return all_have


@pytest.fixture(scope="module")
def world_of_module(new_database: NewDatabase) -> Iterator[World]:
    with EmbeddingEndpoint() as endpoint:
        database = new_database(None)
        settings: dict[str, object] = {
            **urls(database),
            "embedding_base_url": endpoint.base_url,
            "embedding_model": "small",
            "embedding_timeout_s": TIMEOUT,
            "embedding_retries": 1,
        }
        installed = run("install", "--partitions", "2", **settings)
        assert installed.returncode == 0, installed.stderr
        with psycopg.connect(database.admin, dbname=database.name, autocommit=True) as admin:
            admin.execute("grant memphant_dba to memphant_test_dba")
        yield World(endpoint, database, settings)


@pytest.fixture(scope="module")
def server_of_module(world_of_module: World, folder: Path) -> Iterator[ServerProcess]:
    server = launch(folder, **world_of_module.settings)
    server.wait_ready()
    yield server
    server.stop()


@pytest.fixture
def world(world_of_module: World) -> Iterator[World]:
    yield world_of_module
    world_of_module.endpoint.always(good)


async def timed(call: Awaitable[T]) -> tuple[float, T]:
    """Seconds, and the answer."""
    begun = time.monotonic()
    answer = await call
    return time.monotonic() - begun, answer


@pytest.mark.parametrize(
    ("name", "behaviour", "reason"),
    [
        ("failing", Status(503), "answered 503"),
        ("wrong", Dimensions(24), "expected vectors of 16 dimensions, the endpoint returned 24"),
        ("truncated", truncated, "0 vectors for 1 texts"),
        ("busy", Status(429, retry_after="2"), "answered 429"),
        ("hanging", hanging, "did not answer in time"),
    ],
)
async def test_whatever_the_endpoint_does_a_save_is_stored_found_by_words_and_embedded_later(
    world: World,
    server_of_module: ServerProcess,
    name: str,
    behaviour: Behaviour,
    reason: str,
) -> None:
    content = f"a {name}point of the northern lighthouse"
    async with connected(server_of_module) as agent, connected(server_of_module) as other:
        world.endpoint.always(behaviour)
        saving = asyncio.create_task(timed(agent.call("save_memory", content=content)))
        # others, who need no vector, do not wait with it
        assert (await timed(other.listed(limit=1)))[0] < 1
        seconds, reply = await saving
        assert seconds < TIMEOUT + 1.5
        assert reply["results"][0]["memory"]["embedded"] is False
        assert "saved without a vector" in reply["notes"][0]
        assert reason in reply["notes"][0]
        found = await agent.call("search_memories", query=f"{name}point", limit=1)
        assert [memory["content"] for memory in found["memories"]] == [content]
        assert found["searched"]["arms"] == ["keywords"]
        assert any("did not answer" in note and reason in note for note in found["notes"])
        world.endpoint.always(good)
        await asyncio.to_thread(wait_until, world.embedded(content), 30, "the worker")
        found = await agent.call("search_memories", query=f"{name}point", limit=1, explain=True)
        assert found["memories"][0]["arms"]["vector"] > 0
        assert "embedded" not in found["memories"][0]
        assert found["notes"] == []


async def test_a_slow_endpoint_is_waited_for(world: World, server_of_module: ServerProcess) -> None:
    async with connected(server_of_module) as agent:
        world.endpoint.always(Slow(0.7))
        reply = await agent.call("save_memory", content="slow and steady wins")
        assert "embedded" not in reply["results"][0]["memory"]
        assert reply["notes"] == []


async def test_a_text_longer_than_the_model_takes_is_embedded_in_windows_and_the_reply_says_so(
    world: World, server_of_module: ServerProcess
) -> None:
    async with connected(server_of_module) as agent:
        world.endpoint.always(Limit(400))
        reply = await agent.call("save_memory", content="many words about boats " * 50)
        assert "windows, averaged" in reply["results"][0]["note"]
        assert "embedded" not in reply["results"][0]["memory"]


async def test_one_bad_text_does_not_keep_others_from_their_vectors(
    world: World, server_of_module: ServerProcess
) -> None:
    contents = [f"ordinary text {number}" for number in range(6)]

    def picky(endpoint: EmbeddingEndpoint, request: Request) -> Reply:
        behaviour = Status(422) if "poison" in request.texts else good
        return behaviour(endpoint, request)

    async with connected(server_of_module) as agent:
        world.endpoint.always(Status(503))
        items = [{"content": text} for text in ["poison", *contents]]
        await agent.call("save_memory", memories=items)
        world.endpoint.always(picky)
        await asyncio.to_thread(wait_until, world.embedded(*contents), 30, "the worker")
        assert "poison" in await agent.contents("poison")
        world.endpoint.always(good)
        await agent.call(
            "forget_memory", memory_id=(await agent.search("poison", limit=1))[0]["id"]
        )


async def test_r27_two_servers_with_20_writes_each_are_40_rows_and_no_text_is_embedded_twice(
    world: World, server_of_module: ServerProcess, serve: Serve
) -> None:
    second = serve(**world.settings)
    world.endpoint.always(Status(503))
    contents = [f"server {server} write {number}" for server in "ab" for number in range(20)]

    async def write(agent: Agent, mine: list[str]) -> None:
        await asyncio.gather(*(agent.save(content, tags=["r27"]) for content in mine))

    async with connected(server_of_module) as one, connected(second) as other:
        await asyncio.gather(write(one, contents[:20]), write(other, contents[20:]))
        before = len(world.endpoint.requests)
        world.endpoint.always(good)
        await asyncio.to_thread(wait_until, world.embedded(*contents), 40, "both workers")
        asked = Counter(text for r in world.endpoint.requests[before:] for text in r.texts)
        assert {asked[content] for content in contents} == {1}
        for agent in (one, other):
            listed = await agent.listed(tags=["r27"], limit=100)
            assert sorted(memory["content"] for memory in listed) == sorted(contents)


async def test_a_server_starts_without_its_endpoint_where_the_database_knows_the_model(
    world: World, serve: Serve
) -> None:
    world.endpoint.always(Status(503))
    server = serve(**world.settings)
    async with connected(server) as agent:
        reply = await agent.call("save_memory", content="the endpoint slept longer")
        assert reply["results"][0]["memory"]["embedded"] is False
        world.endpoint.always(good)
        done = world.embedded("the endpoint slept longer")
        await asyncio.to_thread(wait_until, done, 30, "the worker")
