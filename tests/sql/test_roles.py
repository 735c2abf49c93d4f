"""What the server's role, a DBA and the owner may do with plain SQL."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import errors as pg
from tests.sql import catalog
from tests.sql.calling import Caller, scalar


def tables(connection: psycopg.Connection) -> set[str]:
    """Every table with user data that this role may select from."""
    return set(
        catalog.lines(
            connection,
            """select c.relname from pg_class as c
            where c.relnamespace = 'memory'::regnamespace and c.relkind in ('r', 'p')
                and c.relrowsecurity and has_table_privilege(c.oid, 'select')""",
        )
    )


@pytest.mark.usefixtures("filled")
def test_without_identity_the_server_finds_no_row_in_any_table(
    server: psycopg.Connection, dba: psycopg.Connection
) -> None:
    names = tables(server)
    assert {"memories", "words", "users", "conversations", "requests", "usage"} <= names
    for name in names:
        query = f"select count(*) from memory.{name}"
        assert scalar(server, query) == 0, name
        assert scalar(dba, query) > 0, name


@pytest.mark.usefixtures("filled")
def test_the_owner_finds_no_row_without_identity_either(
    owner: psycopg.Connection, dba: psycopg.Connection
) -> None:
    for name in tables(dba):
        assert scalar(owner, f"select count(*) from memory.{name}") == 0, name
    assert scalar(owner, "select count(*) from memory.access_tokens") == 0


@pytest.mark.usefixtures("filled")
def test_an_empty_identity_is_nobody(server: psycopg.Connection) -> None:
    with server.transaction():
        server.execute("select set_config('memory.user_id', '', true)")
        server.execute("select set_config('memory.agent_id', '', true)")
        assert scalar(server, "select count(*) from memory.memories") == 0


@pytest.mark.usefixtures("filled")
def test_partitions_cannot_be_reached_around_their_parent(
    server: psycopg.Connection, dba: psycopg.Connection
) -> None:
    partitions = catalog.lines(
        dba,
        """select i.inhrelid::regclass from pg_inherits as i
        where i.inhparent in ('memory.memories'::regclass, 'memory.words'::regclass)""",
    )
    assert len(partitions) >= 32
    for connection in (server, dba):
        for partition in partitions:
            with pytest.raises(pg.InsufficientPrivilege):
                connection.execute(f"select from {partition}".encode())


@pytest.mark.parametrize(
    "statement",
    [
        "select from memory.access_tokens",
        "select from memory.list_tokens()",
        "select memory.create_token('a', 'b', sha256('x'))",
        "select memory.revoke_token(gen_random_uuid())",
        "select from memory.adopt('a', 'b')",
        "select memory.use_model('other', 384)",
        "update memory.settings set value = '\"2020-01-01\"' where name = 'clock.test'",
        "insert into memory.settings (name, meaning) values ('mine', 'mine')",
        "update memory.memory_types set protected = false",
        "update memory.sources set maximum_confidence = 1",
        "delete from memory.migrations",
        "update memory.embedding_model set dimensions = 3",
        "delete from memory.users",
        "truncate memory.memories",
        "create table memory.mine (n integer)",
        "drop policy own_and_shared on memory.memories",
        "alter table memory.memories disable row level security",
        "set role memphant_maintenance",
    ],
)
def test_the_server_may_not(server: psycopg.Connection, statement: str) -> None:
    with pytest.raises((pg.InsufficientPrivilege, pg.InvalidParameterValue)):
        server.execute(statement.encode())


def test_a_client_cannot_move_the_clock_by_a_setting_of_the_session(
    server: psycopg.Connection,
) -> None:
    server.execute("select set_config('clock.test', '2020-01-01', false)")
    assert scalar(server, "select memory._now() = now()")


def test_a_dba_sees_every_row_with_plain_sql(filled: Caller, dba: psycopg.Connection) -> None:
    rows = dba.execute(
        "select content from memory.memories where user_id = %s order by content", (filled.user,)
    ).fetchall()
    assert rows == [("four",), ("one",), ("two",)]
    assert filled.other(connection=dba).found("one")[0] == "one"
    assert sorted(filled.other(connection=dba).contents()) == ["four", "one", "two"]
    found = "select content from memory.memories where user_id = %s and keywords @@ 'four'"
    assert dba.execute(found, (filled.user,)).fetchall() == [("four",)]


def test_a_dba_who_asks_for_an_agent_gets_what_that_agent_would(
    filled: Caller, dba: psycopg.Connection
) -> None:
    peer = filled.other(connection=dba, agent="peer")
    assert peer.contents() == ["two"]
    assert peer.found("one two four") == ["two"]


@pytest.mark.parametrize(
    "act",
    [
        lambda who: who.save("by a DBA"),
        lambda who: who.save_list("by a DBA"),
        lambda who: who.call("forget", days_older_than=0, memory_types=["fact"]),
        lambda who: who.call("set_user", language="de"),
        lambda who: who.connection.execute("update memory.memories set content = 'changed'"),
        lambda who: who.connection.execute("delete from memory.words"),
        lambda who: who.connection.execute("select from memory.access_tokens"),
        lambda who: who.connection.execute("select from memory.authenticate(sha256('x'))"),
        lambda who: who.connection.execute("update memory.settings set value = '1'"),
    ],
)
def test_a_dba_may_not_write(
    filled: Caller, dba: psycopg.Connection, act: Callable[[Caller], object]
) -> None:
    with pytest.raises(pg.InsufficientPrivilege):
        act(filled.other(connection=dba))
    assert sorted(filled.contents()) == ["four", "one", "two"]
