"""What an installer meets that cannot hold memories: it says what is missing and what to do."""

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from memphant import database, schema
from memphant.errors import MemphantError

if TYPE_CHECKING:
    from tests.conftest import TestDatabase


def refusal(empty: "TestDatabase", options: schema.InstallOptions) -> str:
    """What the installer's user reads, and that nothing was left behind."""
    with (
        pytest.raises(MemphantError) as refused,
        database.connect(empty.owner) as connection,
    ):
        schema.install(connection, options)
    with empty.connect(empty.owner) as owner:
        assert owner.execute("select to_regnamespace('memory') is null").fetchone() == (True,)
    return str(refused.value)


def as_admin(empty: "TestDatabase", *statements: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(empty.admin, dbname=empty.name, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement)


def test_an_old_postgres_is_refused(empty: "TestDatabase", options: schema.InstallOptions) -> None:
    with empty.connect(empty.owner) as owner:
        owner.execute("create schema pretended")
        owner.execute(
            """create function pretended.current_setting(text) returns text language sql as
            $$ select case $1 when 'server_version_num' then '140011' when 'server_version'
                then '14.11' else pg_catalog.current_setting($1) end $$"""
        )
    as_admin(
        empty,
        sql.SQL("alter database {} set search_path = pretended, pg_catalog").format(
            sql.Identifier(empty.name)
        ),
    )
    said = refusal(empty, options)
    assert "memphant needs PostgreSQL 15 or newer; this is 14.11" in said
    assert "MEMPHANT_DATABASE_URL" in said


def test_an_old_pgvector_is_refused(empty: "TestDatabase", options: schema.InstallOptions) -> None:
    as_admin(
        empty, sql.SQL("update pg_extension set extversion = '0.7.4' where extname = 'vector'")
    )
    said = refusal(empty, options)
    assert "memphant needs pgvector 0.8 or newer; this database has 0.7.4" in said
    assert "alter extension vector update;" in said


def test_a_database_without_the_extension_that_the_owner_may_not_create_is_refused(
    empty: "TestDatabase", options: schema.InstallOptions
) -> None:
    as_admin(empty, sql.SQL("drop extension vector"))
    said = refusal(empty, options)
    assert "the extension vector is not installed here" in said
    assert "Let an administrator run: create extension vector;" in said


def test_a_server_without_pgvector_is_refused(
    empty: "TestDatabase", options: schema.InstallOptions
) -> None:
    with psycopg.connect(empty.admin, dbname=empty.name, autocommit=True) as admin:
        row: Any = admin.execute("select current_setting('server_version_num')::integer").fetchone()
        if row[0] < 180000:
            pytest.skip("where extensions lie cannot be changed before PostgreSQL 18")
    as_admin(
        empty,
        sql.SQL("drop extension vector"),
        sql.SQL("alter database {} set extension_control_path = '/nowhere'").format(
            sql.Identifier(empty.name)
        ),
    )
    said = refusal(empty, options)
    assert "the extension vector (pgvector) is not available on this server" in said
    assert "Install pgvector 0.8 or newer" in said
