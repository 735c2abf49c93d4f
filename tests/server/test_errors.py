"""What a caller reads about an error of the database: decided by its code, never by its text."""

import psycopg
import pytest
from psycopg import errors as pg

from memphant.errors import UNAVAILABLE, MemphantError, translate


def test_a_message_and_a_hint_are_two_sentences() -> None:
    assert str(MemphantError("no memory 7", "Use another id.")) == "no memory 7. Use another id."
    assert str(MemphantError("no memory 7")) == "no memory 7"
    assert MemphantError("x", "", "MP003").code == "MP003"


def test_the_schemas_own_errors_are_passed_on_whole(server: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as refused:
        server.execute("select memory.get('nobody', 'bot', gen_random_uuid())")
    told = translate(refused.value)
    assert told.code == "MP002"
    assert str(told).startswith("unknown user 'nobody'. Check the spelling.")


SECRET = "zxsecretzx"


@pytest.mark.parametrize(
    "statement",
    [
        f"select '{SECRET}'::integer",
        f"select * from memory.{SECRET}",
        f"select memory.{SECRET}(1)",
        f"insert into memory.sources (name) values ('{SECRET}')",
        f"do $$ begin raise exception '{SECRET}'; end $$",
        f"selec {SECRET}",
        "select 1e300::double precision * interval '1 day'",
    ],
)
def test_of_other_errors_only_the_kind_is_told(server: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        server.execute(statement.encode())
    told = translate(refused.value)
    assert SECRET not in str(told)
    assert told.code == refused.value.sqlstate


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (pg.DiskFull(), "disk is full"),
        (pg.ReadOnlySqlTransaction(), "read-only"),
        (pg.UndefinedFunction(), "memphant install"),
        (pg.UndefinedTable(), "memphant install"),
        (pg.InvalidSchemaName(), "memphant install"),
        (pg.InsufficientPrivilege(), "role may not"),
        (pg.NumericValueOutOfRange(), "out of the range"),
        (psycopg.DataError("a NUL"), "out of the range"),
        (pg.AdminShutdown(), "connection to the database was lost"),
        (psycopg.OperationalError("broken pipe"), "never saved twice"),
        (pg.CheckViolation(), "SQLSTATE 23514"),
        (psycopg.Error("?"), "SQLSTATE unknown"),
    ],
)
def test_every_kind_says_what_can_be_done(error: psycopg.Error, words: str) -> None:
    told = translate(error)
    assert words in str(told)


@pytest.mark.parametrize("error", [pg.AdminShutdown(), psycopg.OperationalError()])
def test_an_unreachable_database_has_a_code_of_its_own(error: psycopg.Error) -> None:
    assert translate(error).code == UNAVAILABLE
