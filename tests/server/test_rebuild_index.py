"""memphant rebuild-index: new parameters, nothing lost meanwhile, and an interruption repaired."""

import json
import random
import signal
import subprocess
import threading

import psycopg
import pytest
from tests.acceptance.conftest import command, environment, urls, wait_until
from tests.conftest import TestDatabase

USERS = [f"user{number}" for number in range(6)]
RANDOM = random.Random(7)


@pytest.fixture(autouse=True)
def through_the_index(owner: psycopg.Connection) -> None:
    """However few memories a user has, the vector arm goes through HNSW."""
    setting(owner, "search.hnsw_cost", 0)


def setting(owner: psycopg.Connection, name: str, value: object) -> None:
    owner.execute(
        "update memory.settings set value = %s where name = %s", (json.dumps(value), name)
    )


def rebuilt(database: TestDatabase) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("rebuild-index"),
        env=environment(**urls(database)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def vector(dimensions: int) -> str:
    return str([round(RANDOM.gauss(0, 1), 4) for _ in range(dimensions)])


def save(server: psycopg.Connection, user: str, content: str, embedding: str) -> None:
    server.execute(
        """select from memory.save(
            user_id => %s, agent_id => 'bot', content => %s, embedding => %s)""",
        (user, content, embedding),
    )


def nearest(server: psycopg.Connection, user: str, embedding: str) -> str:
    """The first memory for a vector and a word that no memory has."""
    row = server.execute(
        """select s.content from memory.search(
            user_id => %s, agent_id => 'bot', query => 'zzz', embedding => %s) as s
        order by s.score desc limit 1""",
        (user, embedding),
    ).fetchone()
    return row[0] if row else ""


def invalid(owner: psycopg.Connection) -> list[str]:
    rows = owner.execute(
        """select c.relname from pg_index as x join pg_class as c on c.oid = x.indexrelid
        where c.relnamespace = 'memory'::regnamespace and not x.indisvalid"""
    )
    return [name for (name,) in rows]


def parameters(owner: psycopg.Connection) -> list[list[str]]:
    """Of each partition's part of the index."""
    rows = owner.execute(
        """select c.reloptions from pg_inherits as h join pg_class as c on c.oid = h.inhrelid
        where h.inhparent = 'memory.memories_embedding_hnsw'::regclass"""
    )
    return [sorted(options) for (options,) in rows]


def findings(connection: psycopg.Connection) -> dict[str, str]:
    rows = connection.execute("select h.subject, h.level from memory.health() as h")
    return dict(rows.fetchall())


def test_new_parameters_are_built_in_while_agents_save_and_search(
    database: TestDatabase,
    owner: psycopg.Connection,
    server: psycopg.Connection,
    model: tuple[str, int],
) -> None:
    saved: list[tuple[str, str, str]] = []
    for number in range(240):
        saved.append((USERS[number % 6], f"before {number}", vector(model[1])))
        save(server, *saved[-1])
    setting(owner, "hnsw.m", 8)
    setting(owner, "hnsw.ef_construction", 40)
    assert findings(server)["vector index"] == "warning"
    stop = threading.Event()
    missed: list[str] = []

    def work() -> None:
        with database.connect(database.server) as connection:
            for number in range(10**6):
                if stop.is_set():
                    return
                saved.append((USERS[number % 6], f"meanwhile {number}", vector(model[1])))
                save(connection, *saved[-1])
                user, content, embedding = RANDOM.choice(saved)
                if nearest(connection, user, embedding) != content:
                    missed.append(content)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        done = rebuilt(database)
    finally:
        stop.set()
        worker.join()
    assert done.returncode == 0, done.stderr
    assert "16/16 memories_15" in done.stdout
    assert len(saved) > 250, "nothing was saved meanwhile"
    assert missed == []
    assert invalid(owner) == []
    assert parameters(owner) == [["ef_construction=40", "m=8"]] * 16
    assert findings(server)["vector index"] == "ok"
    assert [c for u, c, e in saved if nearest(server, u, e) != c] == []


def test_an_interrupted_rebuild_is_finished_by_the_next_one_and_two_never_meet(
    database: TestDatabase, owner: psycopg.Connection, server: psycopg.Connection
) -> None:
    environ = environment(**urls(database))
    with database.connect(database.server) as writer, writer.transaction():
        # a rebuild waits for this writer when its new index is there but not built
        save(writer, USERS[0], "not committed", "[" + ",".join(["1"] * 384) + "]")
        first = subprocess.Popen(
            command("rebuild-index"),
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        wait_until(lambda: invalid(owner), 60, "the new index")
        second = rebuilt(database)
        assert second.returncode == 1
        assert "Another rebuild" in second.stderr
        assert findings(server)["other indexes"] == "ok"
        first.send_signal(signal.SIGKILL)
        first.communicate()

        def ended() -> bool:
            builders = "select from pg_stat_activity where query like 'reindex%%'"
            return owner.execute(builders).fetchone() is None

        wait_until(ended, 30, "the backend to notice that its client is gone")
        assert len(invalid(owner)) == 1
        assert findings(server)["other indexes"] == "error"
    third = rebuilt(database)
    assert third.returncode == 0, third.stderr
    assert "which an interrupted rebuild left" in third.stdout
    assert invalid(owner) == []
    assert findings(server)["other indexes"] == "ok"


def test_an_index_that_was_dropped_is_built_again(
    database: TestDatabase,
    owner: psycopg.Connection,
    server: psycopg.Connection,
    model: tuple[str, int],
) -> None:
    definition = "select pg_get_indexdef('memory.memories_embedding_hnsw'::regclass)"
    before = owner.execute(definition).fetchone()
    owner.execute("drop index memory.memories_embedding_hnsw")
    embedding = vector(model[1])
    save(server, USERS[1], "saved without an index", embedding)
    assert findings(server)["vector index"] == "error"
    done = rebuilt(database)
    assert done.returncode == 0, done.stderr
    assert owner.execute(definition).fetchone() == before
    assert invalid(owner) == []
    assert findings(server)["vector index"] == "ok"
    assert nearest(server, USERS[1], embedding) == "saved without an index"


def test_impossible_parameters_are_refused_and_leave_the_index_as_it_was(
    database: TestDatabase, owner: psycopg.Connection, server: psycopg.Connection
) -> None:
    before = parameters(owner)
    setting(owner, "hnsw.m", 50)
    setting(owner, "hnsw.ef_construction", 64)
    done = rebuilt(database)
    assert done.returncode == 1
    assert "hnsw.ef_construction is 64 and must be at least 2 × hnsw.m = 100" in done.stderr
    assert parameters(owner) == before
    assert invalid(owner) == []
    assert findings(server)["vector index"] == "warning"
