"""What is right and wrong with an installation, a line per finding, and what to do about it.

Without a URL it looks at the database and the model that the settings name, and changes nothing.
With one it knows nothing but the URL and the token, as any client does.
"""

import asyncio
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from memphant import database, schema
from memphant.cluster import SHARED_MEMORY_BYTES
from memphant.embedding import EmbeddingError, build_embedder
from memphant.errors import MemphantError
from memphant.settings import Settings

FREE_BYTES = 2**30  # below this a disk is worth a warning
FULL_BYTES = 2**26  # Postgres needs at least a few segments of WAL
SLOW_EMBEDDING_SECONDS = 1.0
CLIENT_SECONDS = 60.0


class Report:
    """Prints each finding when it is made, and remembers whether one is an error."""

    def __init__(self) -> None:
        self.failed = False

    def ok(self, subject: str, finding: str) -> None:
        """Nothing to do."""
        self.add("ok", subject, finding)

    def warning(self, subject: str, finding: str, advice: str) -> None:
        """It works, but not as well or as safely as it could."""
        self.add("warning", subject, finding, advice)

    def error(self, subject: str, finding: str, advice: str) -> None:
        """It does not work, or does not keep users apart."""
        self.add("error", subject, finding, advice)

    def add(self, level: str, subject: str, finding: str, advice: str | None = None) -> None:
        """One line."""
        self.failed |= level == "error"
        line = f"{level:<8} {subject}: {' '.join(finding.split())}"
        print(f"{line} -> {advice}" if advice else line, flush=True)


def run(settings: Settings, url: str | None, token: str | None) -> int:
    """Examines the installation, or the server at `url`; returns the exit code."""
    report = Report()
    if url is not None:
        asyncio.run(_client(report, url, token))
    else:
        recorded = _database(report, settings)
        asyncio.run(_embedding(report, settings, recorded))
    return 1 if report.failed else 0


def _database(report: Report, settings: Settings) -> tuple[str, int] | None:
    """What the database says of itself; returns the recorded model."""
    if settings.database_url is None:
        _folder(report, settings.data_dir)
        if not (settings.data_dir / "postgres").is_dir():
            report.error(
                "database",
                f"there is none in {settings.data_dir} yet",
                "memphant serve (or memphant install) makes it; if memories are missing, compare "
                "MEMPHANT_DATA_DIR and the account with those of the server",
            )
            return None
    try:
        opened = database.open_database(settings)
        try:
            return _opened(report, settings, opened)
        finally:
            opened.stop()
    except MemphantError as error:
        report.error("database", str(error), "see the message; nothing else can be examined")
        return None


def _opened(
    report: Report, settings: Settings, opened: database.Database
) -> tuple[str, int] | None:
    with database.connect(opened.server) as connection:
        place = conninfo_to_dict(opened.server)
        where = (
            f"embedded, {settings.data_dir}"
            if opened.running
            else f"{place.get('dbname', '')} at {place.get('host', 'the local socket')}"
        )
        report.ok("database", f"{where}, as {connection.info.user}")
        if not _schema(report, connection):
            return None
        recorded: tuple[str, int] | None = connection.execute(
            "select m.name, m.dimensions from memory.embedding_model as m"
        ).fetchone()
        try:
            _code(report, connection, recorded)
            for level, subject, finding, advice in connection.execute(
                "select h.level, h.subject, h.finding, h.advice from memory.health() as h"
            ):
                report.add(level, subject, finding, advice)
        except (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege) as error:
            report.error("schema", str(error), "run memphant install: functions or grants are old")
        if opened.running is None and opened.owner != opened.server:
            _owner(report, connection, opened.owner)
    return recorded


def _schema(report: Report, connection: psycopg.Connection) -> bool:
    """Whether the schema is one that this memphant can work with."""
    try:
        schema.check(connection)
    except MemphantError as error:
        report.error("schema", str(error), "the server will not start on it")
        return False
    except psycopg.errors.InsufficientPrivilege:
        report.error(
            "schema",
            f"{connection.info.user} may not use the schema memory",
            "run memphant install as the owner (MEMPHANT_INSTALL_URL): it grants what is needed",
        )
        return False
    applied = schema.applied_migrations(connection)
    known = {migration.name: migration.checksum for migration in schema.migrations()}
    changed = sorted(name for name in known if applied[name] != known[name])
    newer = sorted(applied.keys() - known.keys())
    if changed:
        report.error(
            "schema",
            f"{', '.join(changed)} is not the migration that ran here",
            "install an unmodified memphant",
        )
    elif newer:
        report.warning(
            "schema",
            f"newer than this memphant, which does not know {', '.join(newer)}; it still works",
            "upgrade memphant",
        )
    else:
        report.ok("schema", f"current, {', '.join(sorted(applied))}")
    return not changed


def _code(report: Report, connection: psycopg.Connection, recorded: tuple[str, int] | None) -> None:
    """Whether the functions are this memphant's; installed by psql, they do not say."""
    known = connection.execute("select memory._setting('schema.code') is not null").fetchone()
    if recorded is None or not known or not known[0]:
        return
    if not schema.is_current(connection, schema.InstallOptions(*recorded)):
        report.warning("functions", "those of another version of memphant", "run memphant install")


def _owner(report: Report, server: psycopg.Connection, owner_url: str) -> None:
    """Whether MEMPHANT_INSTALL_URL is the owner of the same database."""
    fingerprint = "select min(m.applied_at) from memory.migrations as m"
    try:
        with database.connect(owner_url) as connection:
            user = connection.info.user
            owns = connection.execute(
                """select pg_has_role(n.nspowner, 'usage')
                from pg_namespace as n where n.nspname = 'memory'"""
            ).fetchone()
            same = (
                owns is not None
                and server.execute(fingerprint).fetchone()
                == connection.execute(fingerprint).fetchone()
            )
    except MemphantError as error:
        report.error("owner", str(error), "mend MEMPHANT_INSTALL_URL")
        return
    if not same:
        report.error(
            "owner",
            "MEMPHANT_INSTALL_URL and MEMPHANT_DATABASE_URL name two databases",
            "make them the same database as two roles",
        )
    elif owns is None or not owns[0]:
        report.error(
            "owner",
            f"{user} of MEMPHANT_INSTALL_URL does not own the schema",
            "use the role that installed it",
        )
    else:
        report.ok("owner", f"{user}, apart from the server's role")


def _folder(report: Report, data_dir: Path) -> None:
    """Space for the embedded database, and shared memory to build indexes in."""
    existing = next(folder for folder in (data_dir, *data_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    finding = f"{_size(free)} free for {data_dir}"
    if free < FULL_BYTES:
        report.error("disk", finding, "free space now: Postgres stops when none is left")
    elif free < FREE_BYTES:
        report.warning("disk", finding, "free space, or move the data (MEMPHANT_DATA_DIR)")
    else:
        report.ok("disk", finding)
    try:
        shared = os.statvfs("/dev/shm")
    except OSError:
        return
    size = shared.f_frsize * shared.f_blocks
    if size < SHARED_MEMORY_BYTES:
        report.warning(
            "shared memory",
            f"/dev/shm has {_size(size)}: vector indexes are built without parallel workers",
            f"give it {_size(SHARED_MEMORY_BYTES)} (docker run --shm-size=512m)",
        )
    else:
        report.ok("shared memory", f"/dev/shm has {_size(size)}")


async def _embedding(report: Report, settings: Settings, recorded: tuple[str, int] | None) -> None:
    """Embeds a text twice: the first time may load a model."""
    embedder = build_embedder(settings.embedding())
    advice = (
        "check MEMPHANT_EMBEDDING_BASE_URL, _MODEL and _API_KEY; meanwhile memories are saved and "
        "found by words"
        if settings.embedding_model
        else "reinstall memphant: the bundled model cannot be used as it is"
    )
    times = []
    try:
        for text in ("How long does it take?", "And when everything is loaded?"):
            started = time.perf_counter()
            await embedder.embed([text], "query")
            times.append(time.perf_counter() - started)
        name, dimensions = embedder.name, embedder.dimensions
    except EmbeddingError as error:
        report.error("embedding", f"{embedder.name} does not answer: {error.reason}", advice)
        return
    finally:
        await embedder.close()
    finding = f"{name}: the first text {times[0] * 1000:.0f} ms, the next {times[1] * 1000:.0f} ms"
    if times[1] > SLOW_EMBEDDING_SECONDS:
        report.warning("embedding", finding, "every search waits so long: use a faster model")
    else:
        report.ok("embedding", finding)
    if recorded is not None and recorded != (name, dimensions):
        report.error(
            "model",
            f"the database holds vectors of {recorded[0]} with {recorded[1]} dimensions, the "
            f"settings name {name} with {dimensions}",
            "set MEMPHANT_EMBEDDING_* to the recorded model; while no vector is stored, "
            "memphant install takes the other one",
        )


async def _client(report: Report, url: str, token: str | None) -> None:
    """Saves, finds and purges a memory, as a client of the server."""
    import httpx2
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=CLIENT_SECONDS) as http:
        if not await _answers(report, http, url):
            return
        try:
            async with mcp.Client(
                streamable_http_client(url, http_client=http), read_timeout_seconds=CLIENT_SECONDS
            ) as client:
                await _round_trip(report, client)
        except Exception as error:
            # what the transport raises comes in groups; the innermost one says what happened
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]  # type: ignore[assignment]
            report.error(
                "MCP",
                f"the conversation broke off: {type(error).__name__}: {error}",
                "see the server's log at this time",
            )


async def _answers(report: Report, http: Any, url: str) -> bool:
    """Whether an MCP client would get through: address, host name, token."""
    import httpx2

    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    try:
        health = await http.get(_at(url, "/health"))
        answer = await http.post(url, json=request, headers=accept)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        report.error(
            "connection",
            f"{url} does not answer: {error or type(error).__name__}",
            "start memphant serve there; from another machine it must listen on that address "
            "(MEMPHANT_HOST)",
        )
        return False
    try:
        status = health.json()
        version = f"memphant {status['version']}"
    except (ValueError, KeyError, TypeError):
        version = ""
    advice = {
        401: "pass --token; a new one: memphant token create --user USER --agent AGENT",
        403: "add the address to MEMPHANT_ALLOWED_HOSTS and restart the server",
        421: "add the address to MEMPHANT_ALLOWED_HOSTS and restart the server",
        404: "the path of MCP is /mcp",
        405: "the path of MCP is /mcp",
        503: "run memphant doctor on the server's machine",
    }
    if not version:
        report.error("connection", f"{url} is not memphant", "check address and port")
        return False
    if health.status_code != 200:
        report.error("server", "; ".join(status["reasons"]) or "degraded", advice[503])
    if answer.status_code in advice:
        said = {401: "the token is missing, unknown or revoked"}.get(
            answer.status_code, f"{url} answers {answer.status_code}"
        )
        report.error("connection", said, advice[answer.status_code])
        return False
    report.ok("connection", f"{version} at {url}")
    return True


async def _round_trip(report: Report, client: Any) -> None:
    marker = f"doctor{uuid.uuid4().hex}"

    async def call(tool: str, **arguments: Any) -> dict[str, Any] | None:
        result = await client.call_tool(tool, arguments)
        if result.is_error:
            said = "".join(getattr(block, "text", "") for block in result.content)
            report.error(tool, said, "see the server's log at this time")
            return None
        reply: dict[str, Any] = result.structured_content
        for note in reply.get("notes", []):
            report.warning(tool, note, "run memphant doctor on the server's machine")
        return reply

    saved = await call(
        "save_memory",
        content=f"{marker} is a marker of memphant doctor, and can be forgotten.",
        memory_type="task_context",
        tags=["memphant-doctor"],
        shared=False,
    )
    if saved is None:
        return
    memory = saved["results"][0]["memory"]
    report.ok("save_memory", f"saved {memory['id']}")
    try:
        found = await call("search_memories", query=marker, limit=3)
        if found is not None:
            searched = found["searched"]
            report.ok("identity", f"user {searched['user']}, agent {searched['agent']}")
            if memory["id"] in [one["id"] for one in found["memories"]]:
                report.ok("search_memories", f"found it, by {', '.join(searched['arms'])}")
            else:
                report.error(
                    "search_memories",
                    "did not find what was just saved",
                    "run memphant doctor on the server's machine",
                )
    finally:
        gone = await call("forget_memory", memory_id=memory["id"], purge=True)
    if gone is not None and gone["forgotten"] == 1:
        report.ok("forget_memory", "removed it for good")


def _at(url: str, path: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{path}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"
