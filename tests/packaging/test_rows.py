"""The row models of the store match what the functions declare."""

import dataclasses
import types
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import psycopg
import pytest

from memphant.store import Claimed, Principal, SavedItem

if TYPE_CHECKING:
    from tests.conftest import TestDatabase

PYTHON = {
    "integer": int,
    "text": str,
    "uuid": UUID,
    "jsonb": dict,
    "boolean": bool,
}


@pytest.fixture(scope="module")
def catalog(cluster: Any, template: str) -> "TestDatabase":
    """The template itself: only its catalog is read."""
    database: TestDatabase = cluster.database(template)
    return database


def declared(connection: psycopg.Connection, function: str) -> dict[str, str]:
    """Names and types of the columns that a function returns."""
    rows = connection.execute(
        """select a.name, format_type(a.type, null)
        from pg_proc as p,
            unnest(p.proargnames, p.proallargtypes, p.proargmodes) as a (name, type, mode)
        where p.oid = %s::regproc and a.mode = 't'""",
        (f"memory.{function}",),
    ).fetchall()
    return dict(rows)


def plain(hint: Any) -> Any:
    """The type without None and without parameters."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [part for part in get_args(hint) if part is not type(None)]
    return get_origin(hint) or hint


@pytest.mark.parametrize(
    ("row", "function"),
    [(SavedItem, "save_list"), (Claimed, "claim_unembedded"), (Principal, "authenticate")],
)
def test_a_row_model_has_the_columns_of_its_function(
    catalog: "TestDatabase", row: type, function: str
) -> None:
    with psycopg.connect(catalog.owner) as connection:
        columns = declared(connection, function)
    hints = get_type_hints(row)
    assert [field.name for field in dataclasses.fields(row)] == list(columns)
    assert {name: plain(hints[name]) for name in columns} == {
        name: PYTHON[kind] for name, kind in columns.items()
    }
