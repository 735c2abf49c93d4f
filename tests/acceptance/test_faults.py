"""What clients see while Postgres is restarted, killed, or down: in the middle of their saves."""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.acceptance.conftest import Serve, connected, over_stdio, wait_until

from memphant import database, embedded, services
from memphant.postmaster import postmaster_pid


@dataclass
class OwnPostgres:
    """A cluster that a test may stop and kill."""

    root: Path
    running: embedded.EmbeddedPostgres

    @property
    def url(self) -> str:
        return self.running.dsn(user=database.SERVER)

    def start(self) -> None:
        gone, self.running = self.running, embedded.start(self.root)
        gone.stop()


@pytest.fixture(scope="module")
def own_postgres(model: tuple[str, int]) -> Iterator[OwnPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="memphant-own-", dir="/tmp"))
    folder.chmod(0o755)
    own = OwnPostgres(folder / "data", embedded.start(folder / "data"))
    try:
        database.prepare_roles(own.running)
        owner = own.running.dsn(user=database.OWNER)
        database.install(database.Database(own.url, owner, None, own.running), *model, 2)
        yield own
    finally:
        own.running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("how", ["restarted", "killed"])
async def test_a_postgres_that_is_restarted_or_killed_under_parallel_saves_is_unnoticed(
    own_postgres: OwnPostgres, serve: Serve, how: str
) -> None:
    server = serve(database_url=own_postgres.url, user=how)
    contents = [f"{how} number {number}" for number in range(150)]
    saved = 0

    def again() -> None:
        wait_until(lambda: saved >= 40, 60, "some saves")
        if how == "killed":
            pid = postmaster_pid(own_postgres.root / "postgres")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        else:
            own_postgres.running.stop()
        own_postgres.start()

    async with connected(server) as agent:

        async def work(mine: list[str]) -> None:
            nonlocal saved
            for content in mine:
                await agent.save(content, tags=[how])
                saved += 1
                await agent.contents(content, limit=1)

        await asyncio.gather(asyncio.to_thread(again), *(work(contents[n::15]) for n in range(15)))
        listed: list[str] = []
        cursor = ""
        while True:
            reply = await agent.call("list_memories", tags=[how], limit=1000, cursor=cursor)
            listed += [memory["content"] for memory in reply["memories"]]
            cursor = reply["next_cursor"] or ""
            if not cursor:
                break
    assert sorted(listed) == sorted(contents)
    assert "Traceback" not in server.log


async def test_a_database_that_is_down_is_a_clear_error_and_its_return_is_noticed(
    own_postgres: OwnPostgres, serve: Serve
) -> None:
    server = serve(database_url=own_postgres.url, user="down")
    async with connected(server) as agent:
        await agent.save("before")
        own_postgres.running.stop()
        texts = await asyncio.gather(
            agent.refused("save_memory", content="during"),
            agent.refused("search_memories", query="before"),
        )
        assert all("The database cannot be reached" in text for text in texts)
        own_postgres.start()
        begun = time.monotonic()
        await agent.save("after")
        assert time.monotonic() - begun < 8
        assert sorted(await agent.contents("before after")) == ["after", "before"]
    assert server.process.poll() is None


async def test_over_stdio_a_database_that_comes_up_later_is_found_by_a_later_call(
    own_postgres: OwnPostgres,
) -> None:
    url = own_postgres.url
    own_postgres.running.stop()
    async with over_stdio({"database_url": url, "user": "stdio"}) as agent:
        assert "The database cannot be reached" in await agent.refused("list_memories")
        own_postgres.start()
        await asyncio.sleep(services.START_AGAIN_SECONDS)
        await agent.save("it came up")
        assert await agent.contents("it came up") == ["it came up"]
