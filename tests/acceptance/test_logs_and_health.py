"""What the log tells, and never tells; and whether a server says that it is well."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import MCPError
from psycopg import sql
from tests.acceptance.conftest import (
    NewDatabase,
    Serve,
    ServerProcess,
    connected,
    post,
    run,
    tool_call,
    urls,
    wait_until,
)
from tests.conftest import Cluster

SECRET = "zxsecretzx"


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="memphant-logs-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


async def test_what_users_say_is_in_no_log(data_dir: Path, serve: Serve) -> None:
    made = run("token", "create", "--user", "lou", "--agent", "bot", data_dir=data_dir)
    token = made.stdout.strip()
    server = serve(data_dir=data_dir)
    async with connected(server, token) as agent:
        saved = await agent.save(f"{SECRET} content", tags=[f"{SECRET}tag"], metadata={"k": SECRET})
        await agent.search(f"{SECRET} query", explain=True)
        await agent.search(f"{SECRET} unfound", tags=[f"{SECRET}other"])
        await agent.listed(tags=[f"{SECRET}tag"])
        await agent.call("update_memory", memory_id=saved["id"], content=f"{SECRET} corrected")
        await agent.read("memory://recent_context")
        # calls that fail, in validation, in SQL, and in what neither foresees
        for tool, arguments in (
            ("save_memory", {"content": SECRET, SECRET: SECRET}),
            ("save_memory", {"content": SECRET, "memory_type": SECRET}),
            ("save_memory", {"content": SECRET * 1000}),
            ("save_memory", {"content": SECRET, "occurred_at": SECRET}),
            ("save_memory", {"content": SECRET, "metadata": SECRET}),
            ("search_memories", {"query": SECRET, "since": SECRET}),
            ("search_memories", {"query": SECRET, "limit": SECRET}),
            ("search_memories", {"query": SECRET, "cursor": SECRET}),
            ("update_memory", {"memory_id": SECRET, "content": SECRET}),
            ("forget_memory", {"memory_id": saved["id"], "tags": [SECRET]}),
        ):
            await agent.refused(tool, **arguments)
        with contextlib.suppress(MCPError):
            await agent.refused("no_such_tool", content=SECRET)
        await agent.unreadable(f"memory://memories/{SECRET}")
        await agent.call("forget_memory", memory_id=saved["id"])
    post(server, f'{{"jsonrpc": "2.0", "id": 1, "{SECRET}'.encode(), token)
    post(server, tool_call("list_memories"), f"mph_{SECRET}")
    log = data_dir / "postgres.log"
    assert server.stop() == 0
    for text in (server.log, server.stdout, log.read_text()):
        assert SECRET not in text
        assert token not in text
        assert token.removeprefix("mph_")[:12] not in text


async def test_every_call_is_one_event_with_its_duration_counts_and_request(
    local: ServerProcess,
) -> None:
    def names(request: str) -> list[str]:
        return [entry["event"] for entry in local.events() if entry.get("request") == request]

    def call(tool: str, **arguments: object) -> tuple[dict[str, object], str]:
        answer = post(local, tool_call(tool, **arguments))
        request = answer.headers["x-request-id"]
        reply: dict[str, object] = answer.json()["result"].get("structuredContent", {})
        return reply, request

    reply, save = call("save_memory", memories=[{"content": "evt one"}, {"content": ""}])
    event = local.wait_event("save", request=save)
    assert (event["items"], event["saved"], event["refused"]) == (2, 1, 1)
    memory_id = reply["results"][0]["memory"]["id"]  # type: ignore[index]
    reply, search = call("search_memories", query="evt one", limit=3)
    event = local.wait_event("search", request=search)
    assert event["found"] == len(reply["memories"])  # type: ignore[arg-type]
    _, update = call("update_memory", memory_id=memory_id, content="evt two")
    event = local.wait_event("update", request=update)
    _, forget = call("forget_memory", memory_id=memory_id)
    event = local.wait_event("forget", request=forget)
    assert event["forgotten"] == 1
    _, failing = call("search_memories", query="evt", limit=0)
    event = local.wait_event("search", request=failing)
    assert event["failed"] == "MP005"
    for request, name in (
        (save, "save"),
        (search, "search"),
        (update, "update"),
        (forget, "forget"),
        (failing, "search"),
    ):
        assert names(request).count(name) == 1
    for entry in local.events():
        assert {"at", "level", "event"} <= entry.keys()
        if entry["event"] in ("save", "search", "list", "update", "forget", "embed"):
            assert entry["ms"] >= 0
            assert entry["request"]


def health(server: ServerProcess) -> httpx2.Response:
    return httpx2.get(f"{server.base}/health", timeout=30, verify=False)


def test_health_is_200_as_soon_as_it_serves_without_a_token_or_a_model(
    tokens: ServerProcess,
) -> None:
    answer = health(tokens)
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert answer.json()["reasons"] == []


async def test_health_says_when_the_database_is_gone_and_recovers_with_it(
    template: str, new_database: NewDatabase, cluster: Cluster, serve: Serve
) -> None:
    database = new_database(template)
    server = serve(**urls(database))
    name = sql.Identifier(database.name)
    async with connected(server) as agent:
        await agent.save("health before")
        cluster.run(sql.SQL("alter database {} allow_connections false").format(name))
        cluster.run(
            sql.SQL(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = {}"
            ).format(sql.Literal(database.name))
        )
        answer = health(server)
        assert answer.status_code == 503
        assert answer.json()["status"] == "degraded"
        assert answer.json()["reasons"][0].startswith("The database")
        words = await agent.refused("save_memory", content="health meanwhile")
        assert "The database " in words
        assert "ry again" in words
        cluster.run(sql.SQL("alter database {} allow_connections true").format(name))
        wait_until(lambda: health(server).status_code == 200, 30, "the database to be back")
        await agent.save("health after")
        assert len(await agent.listed()) == 2
