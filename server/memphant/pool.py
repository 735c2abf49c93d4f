"""Connections to the database, and how a statement gets through its restarts and failures."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Ping
from psycopg.rows import AsyncRowFactory
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from memphant import logs
from memphant.database import STARTING_SECONDS, answers
from memphant.errors import (
    UNAVAILABLE,
    MemphantError,
    did_not_happen,
    is_lost,
    translate,
    unknown,
)

T = TypeVar("T")
Revive = Callable[[], Awaitable[None]]

RETRY_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Pauses before further attempts, in seconds: a restart of Postgres takes a few."""
WAIT_SECONDS = 10.0
"""Longest wait for a connection, unless the database says that it is starting."""
REVIVE_SECONDS = 2.0
"""After this time without a connection, the embedded Postgres is started if it is gone."""
RECONNECT_SECONDS = 5.0
"""How long a lost connection is tried to be replaced before somebody needs one. The pauses between
the tries double: with minutes here, a database that is back would not be noticed for as long."""
RENEW_SECONDS = 2.0
"""While the database is read-only, all connections are made anew so often at most."""

_PARAMETERS: dict[str, Any] = {
    "application_name": "memphant",
    "connect_timeout": "10",
    # a machine that vanished is noticed in half a minute instead of two hours
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class _StaleError(Exception):
    """The connection had been lost before anything was sent over it."""


class Pool:
    """Runs statements, each of which is one transaction."""

    def __init__(self, conninfo: str, size: int, revive: Revive | None) -> None:
        # what the URL says wins
        self._conninfo = make_conninfo("", **{**_PARAMETERS, **conninfo_to_dict(conninfo)})
        self._revive = revive
        # what is ours to start is not waited for in vain
        self._wait = WAIT_SECONDS if revive is None else min(WAIT_SECONDS, REVIVE_SECONDS)
        self._renewed_at = -RENEW_SECONDS
        self._connections = AsyncConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=size,
            open=False,
            timeout=WAIT_SECONDS,
            reconnect_timeout=RECONNECT_SECONDS,
            configure=_configure,
            # no prepared statements by name: a pooler in transaction mode loses them
            kwargs={"autocommit": True, "prepare_threshold": None},
        )

    async def open(self) -> None:
        """Waits for a first connection. Raises MemphantError if there is none."""
        try:
            await self._connections.open(wait=True, timeout=WAIT_SECONDS)
        except PoolTimeout as error:
            raise _unreachable(await answers(self._conninfo)) from error

    async def close(self) -> None:
        """Closes every connection."""
        await self._connections.close(timeout=5)

    async def fetch(
        self,
        factory: AsyncRowFactory[T],
        statement: LiteralString,
        given: dict[str, Any],
        again: bool,
    ) -> list[T]:
        """Runs one statement, which is one transaction.

        It is run again where it surely did not happen; where the connection was lost in the middle,
        only if `again` says that twice is as good as once, as for reads and saves.

        Raises:
            MemphantError: the schema refused it, or the database cannot serve it.
        """
        began = time.monotonic()
        for attempt, delay in enumerate((*RETRY_DELAYS, None)):
            try:
                return await self._run(factory, statement, given, probe=not again)
            except _StaleError as error:
                if delay is None:
                    raise _unreachable(await answers(self._conninfo)) from error
                await self._connections.check()
            except PoolTimeout as error:
                answer = await answers(self._conninfo)
                patience = STARTING_SECONDS if answer == Ping.REJECT else WAIT_SECONDS
                if self._revive is not None and answer != Ping.OK and delay is not None:
                    await self._revive()
                elif delay is None or time.monotonic() >= began + patience:
                    raise _unreachable(answer) from error
            except pg.ReadOnlySqlTransaction as error:
                # a session keeps its read-only mode, and its server: new ones may do better, after
                # a failover for example
                if attempt > 0 or time.monotonic() < self._renewed_at + RENEW_SECONDS:
                    raise translate(error) from error
                self._renewed_at = time.monotonic()
                await self._connections.drain()
            except psycopg.Error as error:
                lost, rolled_back = is_lost(error), did_not_happen(error)
                if lost and not rolled_back and not again:
                    raise unknown() from error
                if delay is None or not (lost or rolled_back):
                    raise translate(error) from error
                logs.event("retry", sqlstate=error.sqlstate, delay_s=delay)
                if self._revive is not None and lost:
                    await self._revive()
                await asyncio.sleep(delay)
                if lost:
                    # the others in the pool were probably lost with it
                    await self._connections.check()
        raise AssertionError("the last attempt returns or raises")

    async def _run(
        self,
        factory: AsyncRowFactory[T],
        statement: LiteralString,
        given: dict[str, Any],
        *,
        probe: bool,
    ) -> list[T]:
        """`probe` costs a round trip: only where what was lost could not simply be tried again."""
        async with (
            self._connections.connection(self._wait) as connection,
            connection.cursor(row_factory=factory) as cursor,
        ):
            if probe:
                try:
                    await AsyncConnectionPool.check_connection(connection)
                except psycopg.OperationalError as error:
                    raise _StaleError from error
            await cursor.execute(statement, given)
            return await cursor.fetchall()


async def _configure(connection: AsyncConnection[Any]) -> None:
    # the first search of a connection plans for 6 to 12 ms: pay that before a caller waits for it
    try:
        await connection.execute("select memory._warm()")
    except psycopg.Error as error:
        # without the schema, say: then the statement itself is to tell what is wrong
        if is_lost(error):
            raise


def _unreachable(answer: Ping) -> MemphantError:
    if answer == Ping.REJECT:
        return MemphantError(
            "The database is starting or recovering", "Try again in a moment.", UNAVAILABLE
        )
    if answer == Ping.OK:
        return MemphantError(
            "The database answers, but gives no connection in time: all are busy, or the login is "
            "refused",
            "Try again; if it lasts, see the log, or raise MEMPHANT_POOL_SIZE or max_connections.",
            UNAVAILABLE,
        )
    return MemphantError(
        "The database cannot be reached",
        "Check that it runs, and MEMPHANT_DATABASE_URL; then try again.",
        UNAVAILABLE,
    )
