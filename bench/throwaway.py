"""The database that a bench fills: a cluster of its own in a temporary folder, gone afterwards.

MEMPHANT_DATABASE_URL (the server's ordinary role) and MEMPHANT_INSTALL_URL (the owner) name another
database instead. Its schema is installed or upgraded, and what the bench saved is removed again.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from memphant import database, embedded
from memphant.embedding import Embedder
from memphant.settings import Settings

# nothing here has to survive a crash
SETTINGS = {"fsync": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Throwaway:
    """Connection strings by role. `superuser` is None in a database that is not ours."""

    server: str
    owner: str
    superuser: str | None

    def connect(self, conninfo: str | None = None) -> psycopg.Connection:
        """A connection as the server makes them; as its ordinary role unless another is given."""
        return psycopg.connect(conninfo or self.server, autocommit=True, prepare_threshold=None)

    def setting_names(self) -> list[str]:
        """The rows of memory.settings."""
        with self.connect(self.owner) as connection:
            rows = connection.execute("select name from memory.settings order by name").fetchall()
        return [row[0] for row in rows]

    @contextmanager
    def settings(self, values: Mapping[str, object]) -> Iterator[None]:
        """Rows of memory.settings with other values, and put back afterwards.

        Raises KeyError if there is no such setting.
        """
        update = "update memory.settings set value = %s where name = %s"
        with self.connect(self.owner) as connection:
            before: dict[str, object] = dict(
                connection.execute(
                    "select name, value from memory.settings where name = any(%s)", (list(values),)
                ).fetchall()
            )
            if unknown := sorted(values.keys() - before.keys()):
                raise KeyError(f"memory.settings has no {', '.join(unknown)}")
            for name, value in values.items():
                connection.execute(update, (json.dumps(value), name))
        try:
            yield
        finally:
            with self.connect(self.owner) as connection:
                for name, value in before.items():
                    connection.execute(update, (None if value is None else json.dumps(value), name))


@contextmanager
def open_database(
    embedder: Embedder, settings: Mapping[str, str] | None = None
) -> Iterator[Throwaway]:
    """A database with the schema, for the embedder's vectors.

    settings: server parameters of a cluster of our own, such as shared_buffers.
    """
    with _ended_by_sigterm():
        if Settings().database_url is not None:
            found = database.open_database(Settings())
            database.install(found, embedder.name, embedder.dimensions)
            yield Throwaway(found.server, found.owner, None)
            return
        folder = Path(tempfile.mkdtemp(prefix="memphant-bench-"))
        folder.chmod(0o755)  # as root, Postgres runs under another account
        try:
            running = embedded.start(folder / "data", settings={**SETTINGS, **(settings or {})})
            try:
                database.prepare_roles(running)
                ours = database.Database(
                    server=running.dsn(user=database.SERVER),
                    owner=running.dsn(user=database.OWNER),
                    dba=running.dsn(user=database.DBA),
                    running=running,
                )
                database.install(ours, embedder.name, embedder.dimensions)
                yield Throwaway(ours.server, ours.owner, running.dsn(user="postgres"))
            finally:
                running.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM end the process the way Ctrl-C does, so that no cluster stays behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
