"""Which database: the embedded one, or the one that MEMPHANT_DATABASE_URL names."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping

from memphant import embedded, schema
from memphant.errors import MemphantError, translate
from memphant.settings import Settings

OWNER = "memphant_owner"
SERVER = "memphant_server"
DBA = "memphant_dba"

STARTING_SECONDS = 30.0
"""How long a database that says it is starting is waited for."""
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Database:
    """Connection strings by role. `dba` is None where a DBA has a login of their own."""

    server: str
    owner: str
    dba: str | None
    running: embedded.EmbeddedPostgres | None = None

    def stop(self) -> None:
        """Stops the embedded Postgres, if it is ours and nobody else uses it."""
        if self.running is not None:
            self.running.stop()


def open_database(settings: Settings) -> Database:
    """Starts the embedded Postgres, or only names the configured database.

    Raises:
        MemphantError: the embedded Postgres cannot start; the message says why and what to do.
    """
    if settings.database_url is not None:
        server = settings.database_url.get_secret_value()
        owner = settings.install_url.get_secret_value() if settings.install_url else server
        return Database(server=server, owner=owner, dba=None)
    try:
        running = embedded.start(settings.data_dir)
    except embedded.EmbeddedPostgresError as error:
        raise MemphantError(str(error)) from error
    try:
        prepare_roles(running)
    except BaseException:
        running.stop()
        raise
    return Database(
        server=running.dsn(user=SERVER),
        owner=running.dsn(user=OWNER),
        dba=running.dsn(user=DBA),
        running=running,
    )


def install(
    database: Database,
    model: str,
    dimensions: int,
    partitions: int = 16,
    *,
    only_if_changed: bool = False,
) -> list[str]:
    """Installs or upgrades the schema as the owner; returns the migrations that ran.

    `only_if_changed` leaves a current schema alone: an installation locks the tables for a moment.
    """
    role = conninfo_to_dict(database.server).get("user")
    options = schema.InstallOptions(
        model=model,
        dimensions=dimensions,
        partitions=partitions,
        server_role=str(role) if role and database.running is None else None,
    )
    with connect(database.owner) as connection:
        if only_if_changed and schema.is_current(connection, options):
            return []
        return schema.install(connection, options)


async def answers(conninfo: str) -> Ping:
    """How the database meets a client before any login; REJECT while it starts or stops."""
    return await asyncio.to_thread(_answer, conninfo)


def _answer(conninfo: str) -> Ping:
    return Ping(PGconn.ping(make_conninfo(conninfo, connect_timeout=2).encode()))


async def wait_while_starting(conninfo: str) -> None:
    """Returns when the database does not say any more that it is starting, or time is up."""
    deadline = time.monotonic() + STARTING_SECONDS
    waits = {Ping.REJECT}
    while (answer := await answers(conninfo)) in waits and time.monotonic() < deadline:
        if answer == Ping.REJECT:
            waits.add(Ping.NO_RESPONSE)  # between its stop and its start
        await asyncio.sleep(_POLL_SECONDS)


def _connected(conninfo: str) -> psycopg.Connection:
    """A connection; waits while the database says that it is starting, or restarts."""
    deadline = time.monotonic() + STARTING_SECONDS
    seen: set[Ping] = set()
    while True:
        try:
            return psycopg.connect(
                conninfo, autocommit=True, prepare_threshold=None, connect_timeout=10
            )
        except psycopg.OperationalError:
            answer = _answer(conninfo)
            # it may have become ready between the two: one more attempt then
            passing = answer == Ping.REJECT or Ping.REJECT in seen
            if answer == Ping.OK:
                passing = Ping.OK not in seen
            if not passing or time.monotonic() > deadline:
                raise
            seen.add(answer)
        time.sleep(_POLL_SECONDS)


@contextmanager
def connect(conninfo: str) -> Iterator[psycopg.Connection]:
    """One connection, for commands. Errors of the database become MemphantError."""
    try:
        with _connected(conninfo) as connection:
            yield connection
    except psycopg.Error as error:
        # what an installer or an administrator gets wrong is told in Postgres's own words
        if isinstance(error, psycopg.OperationalError) or not error.diag.message_primary:
            raise MemphantError(f"The database cannot be reached: {error}".strip()) from error
        translated = translate(error)
        if translated.code.startswith("MP"):
            raise translated from error
        raise MemphantError(
            error.diag.message_primary, error.diag.message_hint or "", error.sqlstate or ""
        ) from error


def prepare_roles(running: embedded.EmbeddedPostgres) -> None:
    # the cluster's superuser only makes the roles; everything else is done as the owner
    with connect(running.dsn(user="postgres")) as connection, connection.transaction():
        connection.execute("select pg_advisory_xact_lock(20260801, 2)")
        existing = {
            name for (name,) in connection.execute("select rolname from pg_roles where rolcanlogin")
        }
        if {OWNER, SERVER, DBA} <= existing:
            return
        connection.execute(sql.SQL("create role {} login createrole").format(sql.Identifier(OWNER)))
        for name in (SERVER, DBA, "memphant_maintenance"):
            connection.execute(
                sql.SQL(
                    "create role {name} {login}; "
                    "grant {name} to {owner} with admin true, inherit false, set false"
                ).format(
                    name=sql.Identifier(name),
                    login=sql.SQL("nologin" if name == "memphant_maintenance" else "login"),
                    owner=sql.Identifier(OWNER),
                )
            )
        connection.execute(
            sql.SQL("alter database {} owner to {}").format(
                sql.Identifier(running.database), sql.Identifier(OWNER)
            )
        )
