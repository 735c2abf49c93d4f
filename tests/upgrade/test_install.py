"""Installing: once, again, and when it must be refused."""

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.sql import catalog
from tests.sql.calling import Caller, scalar

from memphant import schema
from memphant.errors import MemphantError

if TYPE_CHECKING:
    from tests.conftest import TestDatabase


def test_an_installation_runs_every_migration_and_a_second_one_none(
    empty: "TestDatabase", options: schema.InstallOptions
) -> None:
    names = [migration.name for migration in schema.migrations()]
    with empty.connect(empty.owner) as owner:
        assert schema.install(owner, options) == names
        first = catalog.whole(owner)
        assert schema.install(owner, options) == []
        assert catalog.whole(owner) == first
        schema.check(owner)


def test_an_installation_changes_nothing_that_was_saved(
    installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    dump = "select string_agg(m::text, e'\\n' order by m.id) from memory.memories as m"
    words = "select count(*), sum(weight) from memory.words"
    with (
        installed.connect(installed.owner) as owner,
        installed.connect(installed.server) as server,
        installed.connect(installed.dba) as dba,
    ):
        Caller(server, "alice").save_list("one", "two", {"content": "three", "shared": True})
        owner.execute("update memory.settings set value = '5' where name = 'limits.list'")
        owner.execute("update memory.memory_types set half_life_days = 7 where name = 'fact'")
        before = (scalar(dba, dump), dba.execute(words).fetchone())
        schema.install(owner, options)
        assert (scalar(dba, dump), dba.execute(words).fetchone()) == before
        kept = "select value from memory.settings where name = 'limits.list'"
        assert scalar(owner, kept) == 5
        kept = "select half_life_days from memory.memory_types where name = 'fact'"
        assert scalar(owner, kept) == 7


def test_the_owner_is_no_superuser_and_sees_no_row_afterwards(
    installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    with (
        installed.connect(installed.owner) as owner,
        installed.connect(installed.server) as server,
    ):
        assert scalar(owner, "select current_setting('is_superuser')") == "off"
        Caller(server, "alice").save("private", embedding=None)
        schema.install(owner, options)
        for table in ("memories", "words", "users", "embedding_queue"):
            assert scalar(owner, f"select count(*) from memory.{table}") == 0, table
        assert Caller(owner, "alice").contents() == ["private"]
        assert not scalar(owner, "select pg_has_role('memphant_maintenance', 'usage')")


def test_every_object_but_the_definer_functions_belongs_to_the_owner(
    installed: "TestDatabase",
) -> None:
    with installed.connect(installed.owner) as owner:
        name = str(conninfo_to_dict(installed.owner)["user"])
        owners = set(
            catalog.lines(
                owner,
                """select c.relowner::regrole from pg_class as c
                where c.relnamespace = 'memory'::regnamespace
                union select p.proowner::regrole from pg_proc as p
                where p.pronamespace = 'memory'::regnamespace and not p.prosecdef""",
            )
        )
        assert owners == {name}


def test_a_changed_migration_is_refused_and_nothing_is_done(
    installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    with installed.connect(installed.owner) as owner:
        owner.execute("update memory.migrations set checksum = 'other' where name = '0001_core'")
        owner.execute("comment on table memory.memories is 'untouched'")
        with pytest.raises(MemphantError, match="0001_core"):
            schema.install(owner, options)
        said = "select obj_description('memory.memories'::regclass)"
        assert scalar(owner, said) == "untouched"


def test_a_failed_installation_leaves_nothing_behind(
    empty: "TestDatabase", options: schema.InstallOptions
) -> None:
    with empty.connect(empty.owner) as owner:
        with pytest.raises(psycopg.Error):
            schema.install(owner, replace(options, partitions=0))
        assert scalar(owner, "select to_regnamespace('memory') is null")
        schema.install(owner, options)


@pytest.mark.parametrize("partitions", [1, 5])
def test_the_number_of_partitions_is_chosen_at_the_first_installation(
    empty: "TestDatabase", options: schema.InstallOptions, partitions: int
) -> None:
    query = "select count(*) from pg_inherits where inhparent = 'memory.memories'::regclass"
    with empty.connect(empty.owner) as owner, empty.connect(empty.server) as server:
        schema.install(owner, replace(options, partitions=partitions))
        assert scalar(owner, query) == partitions
        schema.install(owner, replace(options, partitions=32))
        assert scalar(owner, query) == partitions
        Caller(server, "alice").save("found in any partition")
        assert Caller(server, "alice").found("partition") == ["found in any partition"]


def test_a_server_refuses_a_database_without_schema(empty: "TestDatabase") -> None:
    with (
        empty.connect(empty.owner) as owner,
        pytest.raises(MemphantError, match="memphant install"),
    ):
        schema.check(owner)


def test_a_server_refuses_a_schema_that_is_older(installed: "TestDatabase") -> None:
    last = schema.migrations()[-1].name
    with installed.connect(installed.owner) as owner:
        owner.execute("delete from memory.migrations where name = %s", (last,))
        with pytest.raises(MemphantError, match=last):
            schema.check(owner)


def test_a_server_refuses_a_breaking_migration_that_it_does_not_know(
    installed: "TestDatabase",
) -> None:
    statement = "insert into memory.migrations (name, checksum, breaking) values (%s, 'x', %s)"
    with (
        installed.connect(installed.owner) as owner,
        installed.connect(installed.server) as server,
    ):
        owner.execute(statement, ("9998_harmless", False))
        schema.check(server)
        owner.execute(statement, ("9999_breaking", True))
        with pytest.raises(MemphantError, match="9999_breaking"):
            schema.check(server)


def test_the_text_of_a_migration_says_whether_it_breaks() -> None:
    assert schema.SqlFile("1", "-- breaking\nselect 1;").breaking
    assert not schema.SqlFile("1", "-- not breaking\nselect 1;").breaking
    assert schema.SqlFile("1", "x\n").checksum == schema.SqlFile("1", "x").checksum
    assert schema.SqlFile("1", "x").checksum != schema.SqlFile("1", "y").checksum
