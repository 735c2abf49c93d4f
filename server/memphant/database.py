"""Which database: the embedded one, or the one that MEMPHANT_DATABASE_URL names."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from memphant import embedded, schema
from memphant.errors import MemphantError, translate
from memphant.settings import Settings

OWNER = "memphant_owner"
SERVER = "memphant_server"
DBA = "memphant_dba"


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


@contextmanager
def connect(conninfo: str) -> Iterator[psycopg.Connection]:
    """One connection, for commands. Errors of the database become MemphantError."""
    try:
        with psycopg.connect(
            conninfo, autocommit=True, prepare_threshold=None, connect_timeout=10
        ) as connection:
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
