"""Real server processes, and clients of both protocol eras that talk to them."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr
from tests.conftest import TestDatabase

import memphant
from memphant import commands
from memphant.settings import Settings

READY = re.compile(r"^memphant is ready at (http://\S+:(\d+))/mcp$", re.MULTILINE)
START_SECONDS = 90
SOURCES = str(Path(memphant.__file__).resolve().parents[1])


def environment(**settings: object) -> dict[str, str]:
    """What a memphant process is started with: none of our own MEMPHANT_*, and these settings."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MEMPHANT_", "OPENAI_"))}
    given = {f"MEMPHANT_{name.upper()}": str(value) for name, value in settings.items()}
    return {**inherited, "PYTHONPATH": SOURCES, **given}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "memphant.cli", *arguments]


def run(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Runs one command of memphant to its end."""
    return subprocess.run(
        command(*arguments),
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@dataclass
class ServerProcess:
    """One `memphant serve`, and what it has said so far."""

    process: subprocess.Popen[str]
    errors: Path
    settings: dict[str, object]
    lines: list[str] = field(default_factory=list)

    @property
    def stdout(self) -> str:
        return "".join(self.lines)

    @property
    def log(self) -> str:
        return self.errors.read_text()

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """The log's lines, each of which is a JSON object; those of one event."""
        entries: list[dict[str, Any]] = [json.loads(line) for line in self.log.splitlines()]
        return [entry for entry in entries if name in (None, entry["event"])]

    @property
    def base(self) -> str:
        found = READY.search(self.stdout)
        assert found, f"not ready: {self.stdout}\n{self.log}"
        return found[1]

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    @property
    def port(self) -> int:
        return int(self.base.rsplit(":", 1)[1])

    def wait_ready(self) -> None:
        wait_until(
            lambda: READY.search(self.stdout) or self.process.poll() is not None,
            START_SECONDS,
            "the server to be ready",
        )
        assert READY.search(self.stdout), f"ended with {self.process.returncode}: {self.log}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Asks the process to end, and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def wait_event(self, name: str, **fields: object) -> dict[str, Any]:
        """The first event with these fields; waits for it."""
        found: list[dict[str, Any]] = []

        def seen() -> bool:
            found[:] = [e for e in self.events(name) if fields.items() <= e.items()]
            return bool(found)

        wait_until(seen, 20, f"the event {name} {fields}")
        return found[0]


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def launch(folder: Path, *arguments: str, **settings: object) -> ServerProcess:
    """Starts `memphant serve`; its stdout is read by a thread, its stderr goes to a file."""
    descriptor, errors = tempfile.mkstemp(suffix=".log", dir=folder)
    with os.fdopen(descriptor, "w") as stderr:
        process = subprocess.Popen(
            command("serve", *arguments),
            env=environment(**{"port": 0, **settings}),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    server = ServerProcess(process, Path(errors), settings)

    def read() -> None:
        assert process.stdout is not None
        server.lines.extend(process.stdout)

    threading.Thread(target=read, daemon=True).start()
    return server


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder that the account of an embedded Postgres can reach, whoever runs the tests."""
    path = Path(tempfile.mkdtemp(prefix="memphant-acceptance-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


Serve = Callable[..., ServerProcess]


def _serving(folder: Path) -> Iterator[Serve]:
    started: list[ServerProcess] = []

    def serve(*, ready: bool = True, **settings: object) -> ServerProcess:
        server = launch(folder, **settings)
        started.append(server)
        if ready:
            server.wait_ready()
        return server

    yield serve
    for server in started:
        server.stop()


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Starts servers that end with the test."""
    yield from _serving(folder)


@pytest.fixture(scope="session")
def serve_long(folder: Path) -> Iterator[Serve]:
    """Starts servers that end with the run."""
    yield from _serving(folder)


NewDatabase = Callable[[str | None], TestDatabase]


def urls(database: TestDatabase) -> dict[str, object]:
    """The settings that name a database."""
    return {"database_url": database.server, "install_url": database.owner}


@pytest.fixture(scope="session")
def local_database(template: str, new_database: NewDatabase) -> TestDatabase:
    return new_database(template)


@pytest.fixture(scope="session")
def local(local_database: TestDatabase, serve_long: Serve) -> ServerProcess:
    """A server without tokens: everybody is user local, agent default."""
    return serve_long(**urls(local_database))


@pytest.fixture(scope="session")
def shared_database(template: str, new_database: NewDatabase) -> TestDatabase:
    database = new_database(template)
    make_token(database, "first", "first")
    return database


@pytest.fixture(scope="session")
def tokens(shared_database: TestDatabase, serve_long: Serve) -> ServerProcess:
    """A server that serves bearers of tokens only."""
    return serve_long(**urls(shared_database))


def make_token(database: TestDatabase, user: str, agent: str, *options: str) -> str:
    """A new token, made by the command."""
    made = run("token", "create", "--user", user, "--agent", agent, *options, **urls(database))
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture(scope="session")
def token(shared_database: TestDatabase) -> Callable[..., str]:
    """Makes tokens for the server `tokens`, one per principal; in this process, which is faster."""
    made: dict[tuple[str, str], str] = {}
    settings = Settings(
        database_url=SecretStr(shared_database.server), install_url=SecretStr(shared_database.owner)
    )

    def token(user: str, agent: str = "bot", *, share_by_default: bool = False) -> str:
        if (user, agent) not in made:
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()):
                commands.token_create(settings, user, agent, share_by_default=share_by_default)
            made[user, agent] = shown.getvalue().strip()
        return made[user, agent]

    return token


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


class Reply(dict[str, Any]):
    """What a tool returned: the structured content; the text says the same."""


@dataclass
class Agent:
    """The official client, with the few calls that the tests make."""

    client: mcp.Client

    async def call(self, tool: str, /, **arguments: Any) -> Reply:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        structured = result.structured_content
        assert structured is not None
        assert json.loads(text_of(result)) == structured
        return Reply(structured)

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that must fail."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    async def save(self, content: str, /, **fields: Any) -> dict[str, Any]:
        """The stored memory."""
        reply = await self.call("save_memory", content=content, **fields)
        memory: dict[str, Any] = reply["results"][0]["memory"]
        return memory

    async def search(self, query: str, /, **arguments: Any) -> list[dict[str, Any]]:
        reply = await self.call("search_memories", query=query, **arguments)
        memories: list[dict[str, Any]] = reply["memories"]
        return memories

    async def contents(self, query: str, /, **arguments: Any) -> list[str]:
        return [memory["content"] for memory in await self.search(query, **arguments)]

    async def listed(self, **arguments: Any) -> list[dict[str, Any]]:
        memories: list[dict[str, Any]] = (await self.call("list_memories", **arguments))["memories"]
        return memories

    async def read(self, uri: str) -> Any:
        contents = (await self.client.read_resource(uri, cache_mode="bypass")).contents
        assert len(contents) == 1
        return json.loads(contents[0].text)  # type: ignore[union-attr]

    async def unreadable(self, uri: str) -> str:
        with pytest.raises(mcp.MCPError) as refused:
            await self.client.read_resource(uri, cache_mode="bypass")
        return str(refused.value)


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


@contextlib.asynccontextmanager
async def connected(
    server: ServerProcess, token: str | None = None, mode: str = "auto"
) -> AsyncIterator[Agent]:
    """The official client over HTTP."""
    async with (
        httpx2.AsyncClient(headers=bearer(token), timeout=60, verify=False) as http,
        _opened(
            mcp.Client(streamable_http_client(server.url, http_client=http), mode=mode)
        ) as agent,
    ):
        yield agent


@contextlib.asynccontextmanager
async def over_stdio(
    settings: dict[str, object], mode: str = "auto", errors: Path | None = None
) -> AsyncIterator[Agent]:
    """The official client, which starts the server itself."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=command("serve", "--stdio")[1:],
        env=environment(**settings),
    )
    with (errors or Path(os.devnull)).open("w") as errlog:
        async with _opened(mcp.Client(stdio_client(parameters, errlog), mode=mode)) as agent:
            yield agent


@contextlib.asynccontextmanager
async def _opened(client: mcp.Client) -> AsyncIterator[Agent]:
    try:
        async with client:
            yield Agent(client)
    except BaseExceptionGroup as group:
        # the client's task groups wrap what a test raised
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both protocol eras: without and with the handshake."""
    return str(request.param)


HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def post(
    server: ServerProcess,
    body: bytes | dict[str, Any],
    token: str | None = None,
    **headers: str,
) -> httpx2.Response:
    """One raw POST to /mcp."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(
        server.url,
        content=content,
        headers={**HEADERS, **bearer(token), **named},
        timeout=60,
        verify=False,  # it would read every certificate of the machine
    )


def request(method: str, **params: Any) -> dict[str, Any]:
    """A JSON-RPC request as a dictionary."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def tool_call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", name=name, arguments=arguments)
