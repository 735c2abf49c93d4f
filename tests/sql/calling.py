"""How the tests call the schema: functions with named arguments, rows as dictionaries."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

T = TypeVar("T")
Row = dict[str, Any]


def call(connection: psycopg.Connection, function: str, /, **named: object) -> list[Row]:
    """The rows that a function of the schema returns. Dictionaries are passed as jsonb."""
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in named
    )
    statement = sql.SQL("select * from memory.{}({})").format(sql.Identifier(function), arguments)
    given = {name: Jsonb(v) if isinstance(v, dict) else v for name, v in named.items()}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, given).fetchall()


def scalar(connection: psycopg.Connection, query: str, *given: object) -> Any:
    """The one value that a query returns."""
    row = connection.execute(query.encode(), given).fetchone()
    assert row is not None
    return row[0]


@contextmanager
def refused(code: str) -> Iterator["pytest.ExceptionInfo[psycopg.Error]"]:
    """What is done here must be refused with this SQLSTATE."""
    with pytest.raises(psycopg.Error) as caught:
        yield caught
    assert caught.value.sqlstate == code, caught.value


@contextmanager
def allowed(*codes: str) -> Iterator[None]:
    """What is done here may be refused with a SQLSTATE that begins like this."""
    try:
        yield
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(codes):
            raise


def refusal(act: Callable[[], object]) -> tuple[str | None, str | None, str | None]:
    """SQLSTATE, message and hint of the error that `act` meets."""
    with pytest.raises(psycopg.Error) as caught:
        act()
    error = caught.value
    return error.sqlstate, error.diag.message_primary, error.diag.message_hint


def together(conninfo: str, count: int, act: Callable[[psycopg.Connection, int], T]) -> list[T]:
    """Runs `act` in so many threads at once, each with a connection and its number."""

    def run(number: int) -> T:
        with psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as connection:
            return act(connection, number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


def partition_mate(connection: psycopg.Connection, user: str, *, together: bool = True) -> str:
    """Another user, whose rows lie in the same partition as this one's, or in another."""
    query = """
    with p as (
        select u.name, (
            select r from generate_series(0, 15) as r
            where satisfies_hash_partition('memory.memories'::regclass, 16, r, u.name)) as remainder
        from (
            select %(user)s::text as name
            union all
            select %(user)s::text || '-' || n from generate_series(1, 200) as n) as u)
    select p.name from p
    where p.name <> %(user)s
        and (p.remainder = (select q.remainder from p as q where q.name = %(user)s)) = %(together)s
    limit 1
    """
    row = connection.execute(query, {"user": user, "together": together}).fetchone()
    assert row is not None
    return str(row[0])


def vector(*numbers: float, dimensions: int = 384) -> str:
    """A vector of length 1 that begins with these numbers in proportion."""
    length = math.hypot(*numbers)
    parts = [f"{number / length:.7g}" for number in numbers]
    return "[" + ",".join(parts + ["0"] * (dimensions - len(parts))) + "]"


def at_cosine(cosine: float) -> str:
    """A vector with this cosine to vector(1)."""
    return vector(cosine, math.sqrt(1 - cosine**2))


@dataclass(frozen=True)
class Caller:
    """One agent of one user, and the connection that it calls through."""

    connection: psycopg.Connection
    user: str
    agent: str = "bot"

    def other(self, **changes: Any) -> "Caller":
        """Another identity, or the same through another connection."""
        return replace(self, **changes)

    def call(self, function: str, /, **named: object) -> list[Row]:
        """The rows of a function, called as this agent."""
        return call(self.connection, function, user_id=self.user, agent_id=self.agent, **named)

    def reply(self, function: str, /, **named: object) -> Any:
        """The one value of a function, called as this agent."""
        (row,) = self.call(function, **named)
        return row[function]

    def save(self, content: str, **named: object) -> Row:
        """id, status and memory of one saved text."""
        (row,) = self.call("save", content=content, **named)
        return row

    def save_list(self, *items: object, **named: object) -> list[Row]:
        """A result per item; a text alone is an item with that content."""
        drafts = [{"content": item} if isinstance(item, str) else item for item in items]
        return self.call("save_list", items=Jsonb(drafts), **named)

    def search(self, query: str, **named: object) -> list[Row]:
        """What memory.search returns."""
        return self.call("search", query=query, **named)

    def found(self, query: str, **named: object) -> list[str]:
        """The contents that a search returns, best first."""
        return [row["content"] for row in self.search(query, **named)]

    def contents(self, **named: object) -> list[str]:
        """The contents that a list returns, newest first."""
        return [row["content"] for row in self.call("list", **named)]

    def fill(self, count: int, content: str, embedding: str = "null", **columns: str) -> None:
        """Stores many rows by one statement: SQL expressions over n = 1 … count."""
        given: dict[str, str] = {
            "memory_type": "'fact'",
            "source": "'user'",
            "tags": "'{}'",
            "confidence": "0.8",
            "occurred_at": "now() - n * interval '1 minute'",
            **columns,
        }
        names = ", ".join(given)
        with self.connection.transaction():
            self.identify()
            self.connection.execute(
                f"""
                insert into memory.memories (
                    user_id, agent_id, id, content, content_hash, keywords, place, embedding,
                    valid_from, created_at, updated_at, {names})
                select current_setting('memory.user_id'), current_setting('memory.agent_id'),
                    memory._new_id(), d.content, memory._content_hash(d.content),
                    memory._keywords(d.content), nextval('memory.conversation_numbers') * 1048576,
                    ({embedding})::halfvec, now(), now(), now(), {", ".join(given.values())}
                from generate_series(1, {count}) as n
                cross join lateral (select {content} as content) as d
                """.encode()
            )

    def identify(self) -> None:
        """Sets the identity of the open transaction, as the functions do."""
        self.connection.execute(
            """insert into memory.users (user_id)
            select %s where set_config('memory.user_id', %s, true) <> ''
            on conflict do nothing""",
            (self.user, self.user),
        )
        self.connection.execute("select set_config('memory.agent_id', %s, true)", (self.agent,))


def ids(rows: Sequence[Row]) -> list[str]:
    """The ids of rows or of the memories in a reply, as text."""
    return [str(row["id"]) for row in rows]
