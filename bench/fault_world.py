"""What the faults happen to: a Postgres, an embedding endpoint, and servers.

Everything is a real process on this machine, in a temporary folder, and gone afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from bench.fault_clients import wait_until
from tests.server.embedding_endpoint import EmbeddingEndpoint

import memphant
from memphant import database, embedded
from memphant.postmaster import postmaster_pid

READY = re.compile(r"^memphant is ready at (http://\S+)/mcp$", re.MULTILINE)
MODEL, DIMENSIONS = "small", 16
SOURCES = str(Path(memphant.__file__).resolve().parents[1])
START_SECONDS = 120


class Postgres:
    """A cluster of its own, as somebody else's server that memphant is pointed to."""

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.settings = dict(settings or {})
        self.running = self._started()
        database.prepare_roles(self.running)
        self.urls = {
            "database_url": self.running.dsn(user=database.SERVER),
            "install_url": self.running.dsn(user=database.OWNER),
        }
        self.superuser = self.running.dsn(user="postgres")

    def install(self, partitions: int = 4) -> None:
        """The schema, for the vectors of the endpoint."""
        opened = database.Database(
            self.urls["database_url"], self.urls["install_url"], None, self.running
        )
        database.install(opened, MODEL, DIMENSIONS, partitions)

    def _started(self) -> embedded.EmbeddedPostgres:
        return embedded.start(self.root, settings=self.settings)

    def start(self) -> None:
        """As whoever watches over a Postgres does."""
        gone, self.running = self.running, self._started()
        gone.stop()

    def kill9(self) -> None:
        """SIGKILL to the postmaster."""
        pid = postmaster_pid(self.root / "postgres")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """A fast shutdown."""
        self.running.stop()

    def restart(self) -> None:
        """What `pg_ctl restart -m fast` does."""
        self.running.stop()
        self.running = self._started()

    def execute(self, statement: str) -> None:
        """One statement as the superuser."""
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            connection.execute(statement.encode())


class Server:
    """One `memphant serve`."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.log = Path(tempfile.mkstemp(suffix=".log", dir=folder)[1])
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("MEMPHANT_")}
        given = {f"MEMPHANT_{name.upper()}": str(value) for name, value in settings.items()}
        self._lines: list[str] = []
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "memphant.cli", "serve"],
                env={**inherited, "PYTHONPATH": SOURCES, **given},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._lines.extend(self.process.stdout)

    def ready(self) -> Server:
        """Waits until it serves."""
        wait_until(lambda: self.url or self.process.poll() is not None, START_SECONDS)
        assert self.url, f"ended with {self.process.returncode}: {self.log.read_text()[-2000:]}"
        return self

    @property
    def url(self) -> str:
        found = READY.search("".join(self._lines))
        return found[1] if found else ""

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def retries(self) -> int:
        """How many statements it ran again."""
        return self.log.read_text().count('"event": "retry"')

    def stop(self) -> None:
        """Asks it to end, and waits."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class World:
    """A Postgres with the schema, an endpoint, and the servers of one check at a time."""

    def __init__(self, folder: Path, endpoint: EmbeddingEndpoint) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self.postgres = Postgres(folder / "data", {"max_connections": "200"})
        self.postgres.install()

    def model(self) -> dict[str, object]:
        """Settings of the endpoint's model."""
        return {"embedding_base_url": self.endpoint.base_url, "embedding_model": MODEL}

    @contextmanager
    def starting(self, user: str, **settings: object) -> Iterator[Server]:
        """A server whose local user is the check's own; it may not serve yet."""
        given = {"port": 0, "user": user, **self.postgres.urls, **self.model(), **settings}
        server = Server(self.folder, **given)
        try:
            yield server
        finally:
            server.stop()

    @contextmanager
    def serving(self, user: str, **settings: object) -> Iterator[Server]:
        """The same, when it serves."""
        with self.starting(user, **settings) as server:
            yield server.ready()


@contextmanager
def world() -> Iterator[World]:
    """Everything, until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="memphant-faults-"))
    folder.chmod(0o755)  # as root, Postgres runs under another account
    try:
        made = World(folder, EmbeddingEndpoint(DIMENSIONS).__enter__())
        try:
            yield made
        finally:
            made.endpoint.__exit__(None, None, None)
            made.postgres.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
