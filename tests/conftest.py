"""Real databases for every test: one cluster and one template per run, a clone per test.

MEMPHANT_TEST_DATABASE_URL names another Postgres by its owner's URL (see versions.sh), and
MEMPHANT_TEST_POOLER_URL a pooler in front of it; without them the embedded one is started.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memphant import embedded, schema
from memphant.database import OWNER, prepare_roles
from memphant.embedding import EmbeddingSettings, build_embedder

TEST_SERVER = "memphant_test_server"
TEST_DBA = "memphant_test_dba"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-dir",
        default=None,
        help="folder of the evaluation sets; without it they are skipped",
    )


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    given = request.config.getoption("--data-dir")
    if given is None or not Path(given).is_dir():
        pytest.skip("no evaluation sets: pass --data-dir")
    return Path(given)


@dataclass(frozen=True)
class TestDatabase:
    """One database and how to reach it by role. `admin` may create and drop databases."""

    __test__ = False

    name: str
    owner: str
    server: str
    dba: str
    admin: str

    def connect(self, conninfo: str) -> psycopg.Connection:
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)


@dataclass(frozen=True)
class Cluster:
    """The Postgres of this run."""

    admin: str
    owner: str
    pooler: str | None
    # a database with pgvector, where the owner may not create the extension itself
    prepared: str | None = None

    def database(self, name: str) -> TestDatabase:
        def at(conninfo: str, **changes: str) -> str:
            return make_conninfo(conninfo, dbname=name, **changes)

        front = self.pooler or self.owner
        return TestDatabase(
            name=name,
            owner=at(self.owner),
            server=at(front, user=TEST_SERVER),
            dba=at(self.owner, user=TEST_DBA),
            admin=self.admin,
        )

    def run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(statement)

    def create(self, name: str, template: str | None = None) -> TestDatabase:
        owner = sql.Identifier(str(conninfo_to_dict(self.owner)["user"]))
        copied = template or self.prepared
        source = sql.SQL(" template {}").format(sql.Identifier(copied)) if copied else sql.SQL("")
        self.run(
            sql.SQL("create database {} owner {}").format(sql.Identifier(name), owner) + source
        )
        if copied is None:
            with psycopg.connect(
                make_conninfo(self.admin, dbname=name), autocommit=True
            ) as connection:
                connection.execute("create extension vector")
        return self.database(name)

    def drop(self, name: str) -> None:
        statement = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        try:
            self.run(statement)
        except psycopg.errors.InsufficientPrivilege:
            # a pooler holds connections of a role that is not ours to end: their cluster is thrown
            # away after the run
            if self.pooler is None:
                raise


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    url = os.environ.get("MEMPHANT_TEST_DATABASE_URL")
    if url:
        prepared = str(conninfo_to_dict(url)["dbname"])
        cluster = Cluster(url, url, os.environ.get("MEMPHANT_TEST_POOLER_URL"), prepared)
        _login_roles(cluster)
        yield cluster
        return
    folder = Path(tempfile.mkdtemp(prefix="memphant-test-", dir="/tmp"))
    folder.chmod(0o755)
    running = embedded.start(folder / "data", settings={"fsync": "off", "max_connections": "200"})
    try:
        prepare_roles(running)
        cluster = Cluster(
            running.dsn(user="postgres", dbname="postgres"), running.dsn(user=OWNER), None
        )
        _login_roles(cluster)
        yield cluster
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _login_roles(cluster: Cluster) -> None:
    with psycopg.connect(cluster.admin, autocommit=True) as connection:
        for name in (TEST_SERVER, TEST_DBA):
            if not connection.execute(
                "select from pg_roles where rolname = %s", (name,)
            ).fetchone():
                connection.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def model() -> tuple[str, int]:
    """The recorded model of the template: the bundled one."""
    embedder = build_embedder(EmbeddingSettings())
    return embedder.name, embedder.dimensions


@pytest.fixture(scope="session")
def template(cluster: Cluster, model: tuple[str, int]) -> Iterator[str]:
    """A database with the schema, to clone from."""
    name = f"memphant_template_{os.getpid()}"
    database = cluster.create(name)
    with database.connect(database.owner) as connection:
        schema.install(connection, schema.InstallOptions(*model, server_role=TEST_SERVER))
        connection.execute(sql.SQL("grant memphant_dba to {}").format(sql.Identifier(TEST_DBA)))
    yield name
    cluster.drop(name)


@pytest.fixture(scope="session")
def new_database(cluster: Cluster) -> Iterator[Callable[[str | None], TestDatabase]]:
    """Creates databases: clones of a template, or empty ones with pgvector."""
    names = (f"memphant_test_{os.getpid()}_{number}" for number in itertools.count())
    created: list[str] = []

    def create(template: str | None = None) -> TestDatabase:
        name = next(names)
        created.append(name)
        return cluster.create(name, template)

    yield create
    for name in created:
        cluster.drop(name)


@pytest.fixture
def database(template: str, new_database: Callable[[str | None], TestDatabase]) -> TestDatabase:
    """A database of its own for one test, with the schema installed."""
    return new_database(template)


@pytest.fixture
def server(database: TestDatabase) -> Iterator[psycopg.Connection]:
    """A connection as the server's role."""
    with database.connect(database.server) as connection:
        yield connection


@pytest.fixture
def dba(database: TestDatabase) -> Iterator[psycopg.Connection]:
    """A connection of a DBA in psql."""
    with database.connect(database.dba) as connection:
        yield connection


@pytest.fixture
def owner(database: TestDatabase) -> Iterator[psycopg.Connection]:
    """A connection as the owner of the schema."""
    with database.connect(database.owner) as connection:
        yield connection
