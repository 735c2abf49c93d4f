"""Builds the HNSW index anew, one partition at a time, while saves and searches go on.

This is Python because `concurrently` runs neither inside a function nor on a partitioned index. A
partition's index takes the parameters of the settings and is reindexed; one that is missing is
created and attached. Nothing is ever without an index that had one, and what was interrupted can be
run again: it first removes the unfinished indexes that are left.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from memphant import database, schema
from memphant.errors import MemphantError
from memphant.settings import Settings

INDEX = "memories_embedding_hnsw"
PROGRESS_SECONDS = 5.0
LOCK_ATTEMPTS = 180  # of half a second, with half a second between them


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of memory.memories, and its part of the index, if it has one.

    current: the parameters are those of the settings.
    """

    name: str
    index: str | None
    current: bool


def run(settings: Settings) -> None:
    """Rebuilds every partition's part, with a line for each.

    Raises:
        MemphantError: another rebuild runs, or the database refused; what to do is in it.
    """
    opened = database.open_database(settings)
    try:
        rebuild(opened.owner)
    finally:
        opened.stop()


def rebuild(conninfo: str) -> None:
    """What `run` does, in the database that the owner's connection string names."""
    with database.connect(conninfo) as connection:
        schema.check(connection)
        _rebuild(connection, conninfo)


def _rebuild(connection: psycopg.Connection, conninfo: str) -> None:
    started = time.monotonic()
    # the lock of a session ends with its backend, which may outlive us while it builds
    if not _value(connection, "select pg_try_advisory_lock(20260801, 3)"):
        raise MemphantError(
            "Another rebuild of the index runs in this database",
            "Wait for it: select * from pg_stat_progress_create_index;",
        )
    _set_up(connection)
    _remove_leftovers(connection)
    m, ef_construction, definition = connection.execute(
        """select
            memory._number('hnsw.m')::integer, memory._number('hnsw.ef_construction')::integer,
            memory._hnsw_definition()"""
    ).fetchone() or (0, 0, "")
    if ef_construction < 2 * m:
        raise MemphantError(
            f"hnsw.ef_construction is {ef_construction} and must be at least 2 × hnsw.m = {2 * m}",
            "Change one of them: update memory.settings set value = … where name = …;",
        )
    if not _value(connection, f"select to_regclass('memory.{INDEX}') is not null"):
        # on the partitioned table alone it is only a name, until each partition's is attached
        _retried(connection, f"create index {INDEX} on only memory.memories {definition}")
        _execute(
            connection,
            f"comment on index memory.{INDEX} is "
            "'Vectors of active memories, for tenants too large for an exact scan.'",
        )
    partitions = _partitions(connection)
    print(
        f"{len(partitions)} partitions, m {m}, ef_construction {ef_construction}. "
        "Saves and searches go on meanwhile.",
        flush=True,
    )
    for number, partition in enumerate(partitions, 1):
        begun = time.monotonic()
        with _progress(conninfo, connection.info.backend_pid, partition.name):
            index = _one(connection, partition, m, ef_construction, definition)
        size = _value(connection, f"select pg_size_pretty(pg_relation_size('memory.{index}'))")
        print(
            f"{number}/{len(partitions)} {partition.name}: {size} "
            f"in {time.monotonic() - begun:.1f} s",
            flush=True,
        )
    print(f"Rebuilt in {time.monotonic() - started:.1f} s.")


def _one(
    connection: psycopg.Connection,
    partition: Partition,
    m: int,
    ef_construction: int,
    definition: str,
) -> str:
    """Rebuilds or creates one partition's part; returns the name of its index."""
    try:
        if partition.index is not None:
            if not partition.current:
                # the graph that stands keeps its own m, and serves until the new one is there
                _retried(
                    connection,
                    f"alter index memory.{partition.index} "
                    f"set (m = {m}, ef_construction = {ef_construction})",
                )
            _execute(connection, f"reindex index concurrently memory.{partition.index}")
            return partition.index
        index = f"{partition.name}_{INDEX.removeprefix('memories_')}"
        _execute(connection, f"drop index concurrently if exists memory.{index}")
        _execute(
            connection,
            f"create index concurrently {index} on memory.{partition.name} {definition}",
        )
        _retried(connection, f"alter index memory.{INDEX} attach partition memory.{index}")
        return index
    except psycopg.errors.DiskFull as error:
        raise MemphantError(
            f"There is no room to build the index of {partition.name}: "
            f"{error.diag.message_primary}",
            "Free space on the disk, or give /dev/shm more (docker run --shm-size), or build "
            "without parallel workers: PGOPTIONS='-c max_parallel_maintenance_workers=0'.",
        ) from error


def _set_up(connection: psycopg.Connection) -> None:
    # a backend that builds for a client who is gone shall stop
    _execute(connection, "set client_connection_check_interval = '2s'")
    _execute(connection, "set statement_timeout = 0")


def _remove_leftovers(connection: psycopg.Connection) -> None:
    """Drops what an interrupted `concurrently` left: no search reads it, but saves write to it."""
    leftovers = connection.execute(
        """select quote_ident(c.relname)
        from pg_index as x
        join pg_class as c on c.oid = x.indexrelid
        join pg_am as a on a.oid = c.relam
        join pg_inherits as p on p.inhrelid = x.indrelid
        where p.inhparent = 'memory.memories'::regclass and a.amname = 'hnsw' and not x.indisvalid
            and not exists (select from pg_inherits as i where i.inhrelid = x.indexrelid)"""
    ).fetchall()
    for (name,) in leftovers:
        print(f"removing {name}, which an interrupted rebuild left", flush=True)
        _execute(connection, f"drop index concurrently if exists memory.{name}")


def _partitions(connection: psycopg.Connection) -> list[Partition]:
    with connection.cursor(row_factory=class_row(Partition)) as cursor:
        return cursor.execute(
            """select
                quote_ident(t.relname) as name, quote_ident(c.relname) as index,
                coalesce(c.reloptions, '{}') @> array[
                    'm=' || memory._number('hnsw.m'),
                    'ef_construction=' || memory._number('hnsw.ef_construction')] as current
            from pg_inherits as p
            join pg_class as t on t.oid = p.inhrelid
            left join (
                pg_inherits as h
                join pg_index as i on i.indexrelid = h.inhrelid
                join pg_class as c on c.oid = i.indexrelid)
                on h.inhparent = to_regclass('memory.memories_embedding_hnsw')
                and i.indrelid = p.inhrelid
            where p.inhparent = 'memory.memories'::regclass
            order by length(t.relname), t.relname"""
        ).fetchall()


def _retried(connection: psycopg.Connection, statement: str) -> None:
    """For a moment's exclusive lock: whoever waits for it must not make everybody else wait."""
    _execute(connection, "set lock_timeout = '500ms'")
    try:
        for attempt in range(LOCK_ATTEMPTS):
            try:
                _execute(connection, statement)
                return
            except psycopg.errors.LockNotAvailable:
                if attempt + 1 == LOCK_ATTEMPTS:
                    raise MemphantError(
                        "A transaction that has been open for minutes uses the index",
                        "End it (select pid, xact_start, query from pg_stat_activity order by "
                        "xact_start), then run this again.",
                    ) from None
                time.sleep(0.5)
    finally:
        _execute(connection, "set lock_timeout = 0")


@contextmanager
def _progress(conninfo: str, backend: int, partition: str) -> Iterator[None]:
    """Prints how far a long build is, from a connection of its own."""
    done = threading.Event()
    watching = threading.Thread(target=_watch, args=(done, conninfo, backend, partition))
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def _watch(done: threading.Event, conninfo: str, backend: int, partition: str) -> None:
    while not done.wait(PROGRESS_SECONDS):
        try:
            with psycopg.connect(conninfo, autocommit=True, connect_timeout=10) as connection:
                row = connection.execute(
                    """select p.phase, p.tuples_done, p.tuples_total,
                        p.lockers_total - p.lockers_done
                    from pg_stat_progress_create_index as p where p.pid = %s""",
                    (backend,),
                ).fetchone()
        except psycopg.Error:
            continue
        if row is None or done.is_set():
            continue
        phase, tuples, total, lockers = row
        finding = f"{tuples} of about {total} rows" if total else f"{tuples} rows"
        if phase.startswith("waiting"):
            finding = f"{lockers} older transactions (see pg_stat_activity)"
        print(f"    {partition}: {phase}, {finding}", flush=True)


def _execute(connection: psycopg.Connection, statement: str) -> None:
    # names come quoted from the catalog, numbers from the settings
    connection.execute(statement.encode())


def _value(connection: psycopg.Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None
