"""One database per file: its tests use users of their own, so they cannot meet."""

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.sql.calling import Caller

if TYPE_CHECKING:
    from tests.conftest import TestDatabase

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def database(template: str, new_database: "Callable[[str | None], TestDatabase]") -> "TestDatabase":
    """The database of this file, with the schema installed."""
    return new_database(template)


@pytest.fixture
def user() -> str:
    """A name that no other test uses."""
    return f"user-{next(_numbers)}"


@pytest.fixture
def bot(server: psycopg.Connection, user: str) -> Caller:
    """An agent of that user, through the server's role."""
    return Caller(server, user)


@pytest.fixture
def clock(owner: psycopg.Connection) -> Iterator[Callable[[str], None]]:
    """Stops the clock of every rule at a given time, until the end of the test."""
    statement = "update memory.settings set value = to_jsonb(%s::text) where name = 'clock.test'"

    def stop_at(time: str) -> None:
        owner.execute(statement, (time,))

    yield stop_at
    owner.execute(statement, (None,))


@pytest.fixture
def filled(bot: Caller) -> Caller:
    """A user with at least one row in every table."""
    for _ in range(2):
        bot.save("one", conversation_id="talk", idempotency_key="key", tags=["t"])
        bot.save("two", conversation_id="talk", shared=True)
    saved = bot.save("three")
    bot.reply("update", memory_id=saved["id"], content="four")
    return bot
