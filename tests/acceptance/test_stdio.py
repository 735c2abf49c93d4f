"""One client over stdin and stdout."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import command, environment, over_stdio, tool_call, urls
from tests.conftest import TestDatabase

from memphant.postmaster import postmaster_pid

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Raw:
    """A server over stdio, line by line."""

    def __init__(self, **settings: object) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  read when the process has ended
        self.process = subprocess.Popen(
            command("serve", "--stdio"),
            env=environment(**settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )

    def send(self, message: dict[str, Any] | bytes) -> None:
        assert self.process.stdin
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line)
        assert answer["jsonrpc"] == "2.0"
        return answer

    def close(self) -> tuple[int, bytes]:
        """Ends the input; the exit code and what was left on stdout."""
        rest, _ = self.process.communicate(timeout=60)
        return self.process.returncode, rest


@pytest.fixture
def fresh() -> Iterator[Path]:
    """A data directory that does not exist yet."""
    folder = Path(tempfile.mkdtemp(prefix="memphant-stdio-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


def test_r01_r02_r03_initialize_is_answered_at_once_while_the_database_still_starts(
    fresh: Path,
) -> None:
    started = time.monotonic()
    raw = Raw(data_dir=fresh)
    raw.send(INITIALIZE)
    answer = raw.receive()
    elapsed = time.monotonic() - started
    assert answer["result"]["serverInfo"]["name"] == "memphant"
    assert "long-term memory" in answer["result"]["instructions"]
    assert elapsed < 2
    assert postmaster_pid(fresh / "postgres") is None
    # a call before `initialized`, and before there is a database, waits and is answered
    raw.send(tool_call("save_memory", content="r03 saved while the database started"))
    raw.send(INITIALIZED)
    assert raw.receive()["result"]["structuredContent"]["results"][0]["status"] == "saved"
    raw.send(tool_call("search_memories", query="r03 saved"))
    found = raw.receive()["result"]["structuredContent"]["memories"]
    assert found[0]["content"] == "r03 saved while the database started"
    pid = postmaster_pid(fresh / "postgres")
    assert pid is not None
    assert raw.close() == (0, b"")
    assert not Path(f"/proc/{pid}").exists()


def test_a_client_that_leaves_while_the_database_starts_leaves_no_postgres(fresh: Path) -> None:
    raw = Raw(data_dir=fresh)
    raw.send(INITIALIZE)
    raw.receive()
    assert raw.close() == (0, b"")
    assert postmaster_pid(fresh / "postgres") is None


def test_r03_a_tool_call_before_the_handshake_is_no_empty_result(
    local_database: TestDatabase,
) -> None:
    raw = Raw(**urls(local_database))
    raw.send(tool_call("save_memory", content="r03 first of all"))
    answer = raw.receive()
    if "error" in answer:
        assert answer["error"]["message"]
    else:
        assert answer["result"]["structuredContent"]["results"][0]["status"] == "saved"
    assert raw.close()[0] == 0


def test_r02_every_line_of_stdout_is_a_message_whatever_happens(
    local_database: TestDatabase,
) -> None:
    raw = Raw(**urls(local_database))
    raw.send(INITIALIZE)
    raw.send(INITIALIZED)
    raw.send(b"this is no json")
    raw.send(b'{"jsonrpc": "2.0", "method": "notifications/nonsense"}')
    raw.send({"jsonrpc": "2.0", "id": 2, "method": "no/such/method"})
    raw.send({**tool_call("search_memories", query=""), "id": 3})
    raw.send({**tool_call("no_such_tool"), "id": 4})
    raw.send({**tool_call("save_memory", content="r02 is here"), "id": 5})
    raw.send({**tool_call("save_memory", content="x" * 2**20), "id": 6})
    lone = json.dumps({**tool_call("save_memory", content="r62 stdio ABC"), "id": 7}).encode()
    raw.send(lone.replace(b"ABC", rb"\ud800."))
    answers: dict[int, dict[str, Any]] = {}
    while 7 not in answers or len(answers) < 7:
        answer = raw.receive()
        if answer.get("id") is not None:
            answers[answer["id"]] = answer
    assert answers[2]["error"]["code"] == -32601
    assert answers[3]["result"]["isError"]
    assert answers[5]["result"]["structuredContent"]["results"][0]["status"] == "saved"
    assert "the limit is 8000" in answers[6]["result"]["content"][0]["text"]
    reply = answers[7]["result"]["structuredContent"]
    assert reply["results"][0]["memory"]["content"] == "r62 stdio ."
    assert reply["notes"] == [
        "1 characters that Postgres cannot hold (U+0000, lone surrogates) were removed"
    ]
    code, rest = raw.close()
    assert code == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    raw.errors.seek(0)
    assert all(json.loads(line)["event"] for line in raw.errors.read().splitlines())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_although_its_client_still_listens(
    local_database: TestDatabase, number: int
) -> None:
    raw = Raw(**urls(local_database))
    raw.send(INITIALIZE)
    raw.receive()
    raw.process.send_signal(number)
    assert raw.process.wait(20) == 0
    raw.close()


async def test_the_official_client_saves_and_finds_over_stdio(
    local_database: TestDatabase, mode: str, tmp_path: Path
) -> None:
    errors = tmp_path / "errors"
    settings = {**urls(local_database), "user": "stdio", "agent": "cli"}
    async with over_stdio(settings, mode, errors) as agent:
        saved = await agent.save(f"stdio {mode} grows tomatoes")
        assert saved["agent"] == "cli"
        reply = await agent.call("search_memories", query="stdio tomatoes")
        assert reply["searched"]["user"] == "stdio"
        assert saved["id"] in [memory["id"] for memory in reply["memories"]]
    assert "tomatoes" not in errors.read_text()


async def test_a_database_that_cannot_start_is_told_by_the_first_call() -> None:
    settings: dict[str, object] = {"database_url": f"host={os.devnull}/none dbname=none user=none"}
    async with over_stdio(settings) as agent:
        assert (await agent.client.list_tools()).tools
        words = await agent.refused("search_memories", query="anything")
        assert "database cannot be reached" in words
        assert "none" in await agent.unreadable("memory://recent_context")
