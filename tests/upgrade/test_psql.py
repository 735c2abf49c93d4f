"""Installing with psql alone."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.sql import catalog
from tests.sql.calling import Caller, scalar

from memphant import embedded, schema

if TYPE_CHECKING:
    from tests.conftest import TestDatabase


def psql(
    conninfo: str, *arguments: str, given: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs psql in the folder of the SQL."""
    return subprocess.run(
        [embedded.binaries() / "psql", "-X", "-v", "ON_ERROR_STOP=1", conninfo, *arguments],
        cwd=schema.sql_folder(),
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PGOPTIONS": "-c memory.server_role=memphant_test_server",
        },
    )


def rows_without_times(database: "TestDatabase") -> list[str]:
    """What the tables without user data hold, besides the Python installer's own mark."""
    with database.connect(database.owner) as owner:
        return catalog.lines(
            owner,
            """select format('%s %s %s', name, checksum, breaking) from memory.migrations
            union all select (s.*)::text from memory.settings as s where s.name <> 'schema.code'
            union all select (t.*)::text from memory.memory_types as t
            union all select (s.*)::text from memory.sources as s
            union all select format('%s %s', name, dimensions) from memory.embedding_model
            order by 1""",
        )


def whole(database: "TestDatabase") -> list[str]:
    """The catalog of a database."""
    with database.connect(database.owner) as owner:
        return catalog.whole(owner)


def test_psql_installs_what_the_python_installer_does(
    empty: "TestDatabase", installed: "TestDatabase"
) -> None:
    for _ in range(2):
        done = psql(empty.owner, "-1", "-q", "-f", "install.sql")
        assert done.returncode == 0, done.stderr
        assert whole(empty) == whole(installed)
        assert rows_without_times(empty) == rows_without_times(installed)
    with empty.connect(empty.server) as server:
        schema.check(server)
        Caller(server, "alice").save("saved after psql")
        assert Caller(server, "alice").found("psql") == ["saved after psql"]


def test_psql_and_python_upgrade_each_other(
    installed: "TestDatabase", empty: "TestDatabase", options: schema.InstallOptions
) -> None:
    done = psql(installed.owner, "-1", "-q", "-f", "install.sql")
    assert done.returncode == 0, done.stderr
    assert psql(empty.owner, "-1", "-q", "-f", "install.sql").returncode == 0
    with empty.connect(empty.owner) as owner:
        assert schema.install(owner, options) == []


def test_psql_refuses_a_changed_migration_and_does_nothing(installed: "TestDatabase") -> None:
    with installed.connect(installed.owner) as owner:
        owner.execute("update memory.migrations set checksum = 'other' where name = '0001_core'")
        owner.execute("comment on table memory.memories is 'untouched'")
        done = psql(installed.owner, "-1", "-q", "-f", "install.sql")
        assert done.returncode != 0
        assert "0001_core" in done.stderr
        said = "select obj_description('memory.memories'::regclass)"
        assert scalar(owner, said) == "untouched"


def test_install_sql_names_every_file_in_order() -> None:
    text = (schema.sql_folder() / "install.sql").read_text(encoding="utf-8")
    included = [line.split()[1] for line in text.splitlines() if line.startswith("\\ir ")]
    begin, *rest = [f"{file.name}.sql" for file in schema.code()]
    migrations = [f"migrations/{migration.name}.sql" for migration in schema.migrations()]
    assert included == [begin, *migrations, *rest]


@pytest.mark.parametrize("fresh", [True, False])
def test_the_printed_plan_installs_through_psql(
    empty: "TestDatabase",
    installed: "TestDatabase",
    options: schema.InstallOptions,
    fresh: bool,
) -> None:
    database = empty if fresh else installed
    with database.connect(database.owner) as owner:
        plan = schema.plan(schema.applied_migrations(owner), options)
    expected = whole(installed)
    done = psql(database.owner, "-q", given=plan)
    assert done.returncode == 0, done.stderr
    assert whole(database) == expected
    with database.connect(database.server) as server:
        schema.check(server)


def test_the_sql_lies_where_the_loader_looks() -> None:
    assert schema.sql_folder().name == "sql"
    assert Path(schema.sql_folder() / "README.md").is_file()
