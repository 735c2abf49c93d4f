"""The embedded default from its first start to kill -9."""

import asyncio
import os
import re
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
from tests.acceptance.conftest import (
    Serve,
    ServerProcess,
    connected,
    post,
    run,
    tool_call,
    wait_until,
)
from tests.conftest import TestDatabase
from tests.server.embedding_endpoint import EmbeddingEndpoint

from memphant.postmaster import postmaster_pid


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """One data directory for the tests of this file, which take turns."""
    folder = Path(tempfile.mkdtemp(prefix="memphant-life-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


def postgres_of(data_dir: Path) -> list[int]:
    """Every Postgres process of this data directory."""
    pid = postmaster_pid(data_dir / "postgres")
    if pid is None:
        return []
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def gone(pids: list[int]) -> bool:
    return not any(
        psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        for pid in pids
    )


@pytest.fixture
def server(serve: Serve, data_dir: Path) -> ServerProcess:
    return serve(data_dir=data_dir)


def test_a_start_says_where_the_data_is_and_how_to_connect(
    server: ServerProcess, data_dir: Path
) -> None:
    said = server.stdout
    assert re.search(rf"^  data +{re.escape(str(data_dir / 'postgres'))}$", said, re.MULTILINE)
    assert f"claude mcp add --transport http memphant {server.url}" in said
    assert f"codex mcp add memphant --url {server.url}" in said
    assert '"servers": {"memphant"' in said
    assert f'mcp.Client("{server.url}")' in said
    assert "memphant psql" in said
    assert "as user local, agent default" in said
    assert postgres_of(data_dir)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_stops_everything_with_exit_code_0(
    server: ServerProcess, data_dir: Path, number: int
) -> None:
    answer = post(server, tool_call("save_memory", content=f"stopped by {number}"))
    assert answer.status_code == 200
    pids = postgres_of(data_dir)
    assert len(pids) > 1
    # as Ctrl-C in a terminal does
    os.killpg(server.process.pid, number)
    assert server.process.wait(30) == 0
    assert gone(pids)
    assert postmaster_pid(data_dir / "postgres") is None
    assert "Traceback" not in server.log
    assert server.events("save")[0]["saved"] == 1


def test_a_second_start_is_ready_in_under_3_seconds(serve: Serve, data_dir: Path) -> None:
    if not data_dir.exists():
        serve(data_dir=data_dir).stop()
    started = time.monotonic()
    server = serve(data_dir=data_dir)
    assert time.monotonic() - started < 3
    assert server.stop() == 0


def test_a_signal_while_starting_leaves_no_postgres(serve: Serve, data_dir: Path) -> None:
    for pause in (0.3, 0.6, 0.9):
        server = serve(ready=False, data_dir=data_dir)
        time.sleep(pause)
        # before its handlers are in place a signal ends it by itself
        assert server.stop() in (0, -signal.SIGTERM)
        assert postgres_of(data_dir) == []


async def test_after_kill_9_every_acknowledged_save_is_there_and_none_twice(
    serve: Serve, data_dir: Path
) -> None:
    server = serve(data_dir=data_dir)
    acknowledged: list[str] = []
    sent: list[str] = []

    async def save(worker: int) -> None:
        for number in range(1000):
            content = f"kill9 save {worker} {number}"
            sent.append(content)
            try:
                answer = await asyncio.to_thread(
                    post,
                    server,
                    tool_call(
                        "save_memory", content=content, tags=["kill9"], idempotency_key=content
                    ),
                )
            except Exception:
                return
            if answer.status_code != 200 or "error" in answer.json():
                return
            acknowledged.append(content)

    workers = [asyncio.create_task(save(worker)) for worker in range(6)]
    await asyncio.to_thread(wait_until, lambda: len(acknowledged) >= 30, 60, "30 saves")
    server.process.kill()
    await asyncio.gather(*workers)
    server.process.wait()

    server = serve(data_dir=data_dir)
    async with connected(server) as agent:
        # a client that got no answer tries again with the same key
        for content in sent[-6:]:
            await agent.save(content, tags=["kill9"], idempotency_key=content)
        stored: list[str] = []
        arguments: dict[str, object] = {"tags": ["kill9"], "limit": 100}
        while True:
            reply = await agent.call("list_memories", **arguments)
            stored += [memory["content"] for memory in reply["memories"]]
            if reply["next_cursor"] is None:
                break
            arguments["cursor"] = reply["next_cursor"]
    assert len(stored) == len(set(stored))
    assert set(acknowledged) | set(sent[-6:]) <= set(stored)
    assert set(stored) <= set(sent)
    pids = postgres_of(data_dir)
    assert server.stop() == 0
    assert gone(pids)


async def test_psql_shows_a_dba_what_an_agent_saved(server: ServerProcess, data_dir: Path) -> None:
    post(server, tool_call("save_memory", content="psql the gate code is 4711"))
    query = "select user_id, content from memory.memories where content ~ '4711'"
    shown = run("psql", "--", "-Atc", query, data_dir=data_dir)
    assert shown.stdout == "local|psql the gate code is 4711\n", shown.stderr
    refused = run("psql", "--", "-c", "delete from memory.memories", data_dir=data_dir)
    assert refused.returncode == 1
    assert "permission denied" in refused.stderr
    # the database of the server was joined, and is left running
    assert post(server, tool_call("list_memories", limit=1)).status_code == 200
    assert server.stop() == 0
    # without a server it runs for as long as it is needed
    shown = run("psql", "--", "-Atc", query, data_dir=data_dir)
    assert shown.stdout == "local|psql the gate code is 4711\n", shown.stderr
    assert postgres_of(data_dir) == []


def test_r60_an_embedded_database_of_another_model_refuses_to_start(
    server: ServerProcess, data_dir: Path
) -> None:
    post(server, tool_call("save_memory", content="r60 has a vector"))
    assert server.stop() == 0
    with EmbeddingEndpoint(768) as endpoint:
        refused = run(
            "serve",
            data_dir=data_dir,
            port=0,
            embedding_base_url=endpoint.base_url,
            embedding_model="large",
        )
    assert refused.returncode == 1
    for word in ("large", "768", "multilingual-e5-small", "384", "recorded model"):
        assert word in refused.stderr
    assert postgres_of(data_dir) == []


def test_a_postgres_that_was_killed_is_started_again(server: ServerProcess, data_dir: Path) -> None:
    saved = post(server, tool_call("save_memory", content="killed before")).json()
    os.kill(postgres_of(data_dir)[0], signal.SIGQUIT)

    def works() -> bool:
        answer = post(server, tool_call("save_memory", content="killed after")).json()
        return not answer["result"].get("isError")

    wait_until(works, 60, "a save to succeed again")
    answer = httpx2.get(f"{server.base}/health", timeout=30, verify=False)
    assert answer.status_code == 200
    memory_id = saved["result"]["structuredContent"]["results"][0]["memory"]["id"]
    again = post(server, tool_call("memory_history", memory_id=memory_id)).json()["result"]
    assert again["structuredContent"]["versions"][0]["memory"]["content"] == "killed before"
    pids = postgres_of(data_dir)
    assert server.stop() == 0
    assert gone(pids)


async def test_r03_clients_go_on_after_the_server_was_restarted(
    serve: Serve, local_database: TestDatabase
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = serve(database_url=local_database.server, port=port)
    async with (
        connected(server, mode="auto") as modern,
        connected(server, mode="legacy") as legacy,
    ):
        await modern.save("r03 before the restart")
        await legacy.save("r03 legacy before the restart")
        assert server.stop() == 0
        serve(database_url=local_database.server, port=port)
        for agent in (legacy, modern):
            assert "r03 before the restart" in await agent.contents("r03 before the restart")
            assert (await agent.save("r03 after the restart"))["content"]


def test_a_port_in_use_is_a_clear_error(serve: Serve, data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = serve(ready=False, data_dir=data_dir, port=port)
        assert server.process.wait(30) == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in server.log
    assert "MEMPHANT_PORT" in server.log
    assert server.stdout == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "eighty"),
        ("port", "70000"),
        ("pool_size", "0"),
        ("allowed_hosts", "not json"),
        ("embedding_dimensions", "-3"),
        ("embedding_timeout_s", "601"),
        ("user", ""),
    ],
)
def test_a_bad_setting_is_named(data_dir: Path, name: str, value: str) -> None:
    ended = run("serve", data_dir=data_dir, **{name: value})
    assert ended.returncode == 2
    assert f"MEMPHANT_{name.upper()}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_endpoint_without_a_model_is_a_clear_error(data_dir: Path) -> None:
    ended = run("serve", data_dir=data_dir, embedding_base_url="http://127.0.0.1:9/v1")
    assert ended.returncode == 2
    assert ended.stderr.startswith("memphant: MEMPHANT_EMBEDDING_MODEL: ")


def test_an_unreachable_database_is_a_clear_error() -> None:
    ended = run("serve", database_url="postgresql://nobody@127.0.0.1:9/none", port=0)
    assert ended.returncode == 1
    assert "The database cannot be reached" in ended.stderr
    assert "Traceback" not in ended.stderr
