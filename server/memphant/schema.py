"""The installer: installs or upgrades the schema `memory` in one transaction."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from memphant.errors import MemphantError


@dataclass(frozen=True, slots=True)
class SqlFile:
    """One file of SQL. `name` is its file name without the ending."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text without its last line break, which psql cannot see."""
        return hashlib.sha256(self.text.removesuffix("\n").encode()).hexdigest()

    @property
    def breaking(self) -> bool:
        """Whether servers that do not know this migration must not run on it."""
        return self.text.startswith("-- breaking\n")


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """What an installation is given. Partitions count only at the first one."""

    model: str
    dimensions: int
    server_role: str | None = None
    partitions: int = 16

    def settings(self) -> dict[str, str]:
        """The session settings that the SQL reads."""
        return {
            "memory.partitions": str(self.partitions),
            "memory.server_role": self.server_role or "",
        }


def sql_folder() -> Path:
    """The packaged SQL, or the checkout's."""
    here = Path(__file__).resolve().parent
    packaged = here / "sql"
    return packaged if packaged.is_dir() else here.parents[1] / "sql"


def migrations() -> list[SqlFile]:
    """What runs once, in order."""
    return [_read(path) for path in sorted((sql_folder() / "migrations").glob("[0-9]*.sql"))]


def code() -> list[SqlFile]:
    """What is replaced at every install, in order. The first file begins, the last one secures."""
    return [_read(path) for path in sorted(sql_folder().glob("[0-9][0-9]_*.sql"))]


def _read(path: Path) -> SqlFile:
    return SqlFile(path.stem, path.read_text(encoding="utf-8"))


def is_current(connection: psycopg.Connection, options: InstallOptions) -> bool:
    """Whether this very code, with these migrations and this model, is what is installed."""
    if applied_migrations(connection) != {m.name: m.checksum for m in migrations()}:
        return False
    row = connection.execute(
        """select
            memory._setting('schema.code') #>> '{}' = %s
            and exists (
                select from memory.embedding_model as e
                where e.name = %s and e.dimensions = %s)""",
        (_code_checksum(), options.model, options.dimensions),
    ).fetchone()
    return bool(row and row[0])


def _code_checksum() -> str:
    return hashlib.sha256("".join(file.checksum for file in code()).encode()).hexdigest()


def install(connection: psycopg.Connection, options: InstallOptions) -> list[str]:
    """Installs or upgrades in one transaction and returns the migrations that ran.

    Twenty at once end in one installed schema: 00_begin.sql takes a lock for the transaction.

    Raises:
        MemphantError: a released migration was changed, or another model's vectors are stored.
        psycopg.Error: the database refused.
    """
    begin, *rest = code()
    ran = []
    with connection.transaction():
        for name, value in options.settings().items():
            connection.execute("select set_config(%s, %s, true)", (name, value))
        _run(connection, begin.text)
        applied = _applied(connection)
        for migration in migrations():
            if migration.name in applied:
                _verify(migration, applied[migration.name])
                continue
            _run(connection, migration.text)
            connection.execute(
                "insert into memory.migrations (name, checksum, breaking) values (%s, %s, %s)",
                (migration.name, migration.checksum, migration.breaking),
            )
            ran.append(migration.name)
        for file in rest:
            _run(connection, file.text)
        connection.execute(
            "select memory.use_model(name => %s, dimensions => %s)",
            (options.model, options.dimensions),
        )
        connection.execute(
            "update memory.settings set value = to_jsonb(%s::text) where name = 'schema.code'",
            (_code_checksum(),),
        )
    return ran


def plan(applied: dict[str, str], options: InstallOptions) -> str:
    """The SQL that an installation would run where `applied` migrations have run."""
    begin, *rest = code()
    parts = ["begin;"]
    for name, value in options.settings().items():
        parts.append(
            sql.SQL("select set_config({}, {}, true);").format(name, value).as_string(None)
        )
    parts.append(begin.text)
    for migration in migrations():
        if migration.name in applied:
            continue
        insert = sql.SQL(
            "insert into memory.migrations (name, checksum, breaking) values ({}, {}, {});"
        ).format(migration.name, migration.checksum, migration.breaking)
        parts += [migration.text, insert.as_string(None)]
    parts += [file.text for file in rest]
    use = sql.SQL("select memory.use_model(name => {}, dimensions => {});")
    parts += [use.format(options.model, options.dimensions).as_string(None), "commit;"]
    return "\n".join(parts)


def applied_migrations(connection: psycopg.Connection) -> dict[str, str]:
    """Name and checksum of the migrations that ran; none where memphant is not installed."""
    row = connection.execute("select to_regclass('memory.migrations') is not null").fetchone()
    return _applied(connection) if row and row[0] else {}


def recorded_model(connection: psycopg.Connection) -> tuple[str, int] | None:
    """Name and dimensions of the model whose vectors the database holds; None if not installed."""
    row = connection.execute("select to_regclass('memory.embedding_model') is not null").fetchone()
    if not row or not row[0]:
        return None
    return connection.execute("select name, dimensions from memory.embedding_model").fetchone()


def check(connection: psycopg.Connection) -> None:
    """Refuses a database that this server must not run on.

    Raises:
        MemphantError: the schema is missing, too old, or newer by a breaking migration.
    """
    applied = applied_migrations(connection)
    if not applied:
        raise MemphantError("This database has no schema memory", "Run: memphant install")
    known = {migration.name for migration in migrations()}
    if missing := sorted(known - applied.keys()):
        raise MemphantError(
            f"The schema is older than this server: {', '.join(missing)} did not run",
            "Run: memphant install",
        )
    breaking = connection.execute(
        "select name from memory.migrations where breaking and not name = any(%s) order by name",
        (list(known),),
    ).fetchall()
    if breaking:
        raise MemphantError(
            f"The schema is newer than this server: it does not know {breaking[0][0]}",
            "Upgrade memphant.",
        )


def _applied(connection: psycopg.Connection) -> dict[str, str]:
    return dict(connection.execute("select name, checksum from memory.migrations").fetchall())


def _verify(migration: SqlFile, checksum: str) -> None:
    if migration.checksum != checksum:
        raise MemphantError(
            f"Migration {migration.name} is not the one that ran in this database",
            "Released migrations never change: install an unmodified memphant.",
        )


def _run(connection: psycopg.Connection, text: str) -> None:
    # without parameters the text goes as one simple query, so a file may hold many statements
    connection.execute(text.encode())
