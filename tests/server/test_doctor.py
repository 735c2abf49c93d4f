"""memphant doctor names each thing that can be wrong, what to do, and ends with 1 on an error."""

import contextlib
import http.server
import io
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.acceptance.conftest import (
    ServerProcess,
    command,
    environment,
    launch,
    make_token,
    urls,
)
from tests.conftest import TEST_SERVER, TestDatabase

from memphant import doctor
from memphant.settings import Settings

NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Examined:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str = ""


def process(*arguments: str, **settings: object) -> Examined:
    """memphant doctor as its users run it."""
    done = subprocess.run(
        command("doctor", *arguments),
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Examined(done.returncode, done.stdout, done.stderr)


def examined(**settings: object) -> Examined:
    """The same in this process, which has most of it imported."""
    output = io.StringIO()
    given = cast("dict[str, Any]", settings)
    with contextlib.redirect_stdout(output):
        code = doctor.run(Settings(**given), None, None)
    return Examined(code, output.getvalue())


def line(done: Examined, level: str, subject: str) -> str:
    """The finding about a subject, which must be of that level."""
    found = [entry for entry in done.stdout.splitlines() if f" {subject}: " in entry]
    assert len(found) == 1, done.stdout + done.stderr
    assert found[0].startswith(f"{level} "), found[0]
    assert level == "ok" or " -> " in found[0], "it does not say what to do"
    return found[0]


def test_a_sound_installation_is_ok_in_every_line(database: TestDatabase) -> None:
    done = process(**urls(database))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [entry for entry in done.stdout.splitlines() if not entry.startswith("ok ")] == []
    for subject in ("database", "schema", "PostgreSQL", "pgvector", "role", "row-level security"):
        line(done, "ok", subject)
    for subject in ("model", "vector index", "backlog", "owner", "embedding"):
        line(done, "ok", subject)
    assert "memphant_owner, apart from" in line(done, "ok", "owner")


def test_a_database_that_cannot_be_reached_is_an_error() -> None:
    done = examined(database_url="postgresql://somebody@127.0.0.1:9/app")
    assert done.returncode == 1
    assert "cannot be reached" in line(done, "error", "database")


def test_a_database_without_the_schema_is_an_error(
    new_database: Callable[[str | None], TestDatabase],
) -> None:
    done = examined(**urls(new_database(None)))
    assert done.returncode == 1
    assert "Run: memphant install" in line(done, "error", "schema")


def test_an_embedded_database_that_is_not_there_is_an_error_and_is_not_made(
    tmp_path: Path,
) -> None:
    done = examined(data_dir=tmp_path / "nothing")
    assert done.returncode == 1
    assert "MEMPHANT_DATA_DIR" in line(done, "error", "database")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("statement", "level", "says"),
    [
        (
            "delete from memory.migrations where name = '0001_core'",
            "error",
            "0001_core did not run",
        ),
        (
            "insert into memory.migrations values ('9999_next', 'x', false)",
            "warning",
            "9999_next; it still works",
        ),
        (
            "insert into memory.migrations values ('9999_next', 'x', true)",
            "error",
            "newer than this server",
        ),
        (
            "update memory.migrations set checksum = 'x' where name = '0001_core'",
            "error",
            "0001_core is not the migration that ran here",
        ),
        ("drop function memory.health()", "error", "run memphant install"),
        (
            f"revoke memphant_server from {TEST_SERVER}; "
            "revoke usage on schema memory from memphant_server",
            "error",
            "may not use the schema memory",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_told(
    database: TestDatabase, owner: psycopg.Connection, statement: str, level: str, says: str
) -> None:
    owner.execute(statement.encode())
    try:
        done = examined(**urls(database))
    finally:
        owner.execute(sql.SQL("grant memphant_server to {}").format(sql.Identifier(TEST_SERVER)))
    assert done.returncode == (1 if level == "error" else 0)
    found = [entry for entry in done.stdout.splitlines() if says in entry]
    assert len(found) == 1, done.stdout
    assert found[0].startswith(f"{level} ")
    assert " schema: " in found[0]


def test_functions_of_another_version_are_a_warning(
    database: TestDatabase, owner: psycopg.Connection
) -> None:
    owner.execute("""update memory.settings set value = '"0123"' where name = 'schema.code'""")
    done = examined(**urls(database))
    assert done.returncode == 0
    assert "another version" in line(done, "warning", "functions")


def test_a_server_that_is_the_owner_is_a_warning(database: TestDatabase) -> None:
    done = examined(database_url=database.owner)
    assert done.returncode == 0
    assert "forced row-level security still binds it" in line(done, "warning", "role")


def test_a_server_that_row_level_security_does_not_bind_is_an_error(
    database: TestDatabase,
) -> None:
    admin = make_conninfo(database.admin, dbname=database.name)
    with database.connect(admin) as connection:
        if connection.info.parameter_status("is_superuser") != "on":
            pytest.skip("this cluster lends nobody a superuser")
    done = examined(database_url=admin)
    assert done.returncode == 1
    assert "nothing keeps users apart" in line(done, "error", "role")


def test_a_server_that_may_read_every_memory_is_an_error(database: TestDatabase) -> None:
    role = "memphant_test_both"
    with psycopg.connect(database.admin, autocommit=True) as admin:
        admin.execute(f"drop role if exists {role}".encode())
        admin.execute(f"create role {role} login in role memphant_server, memphant_dba".encode())
        try:
            done = examined(database_url=make_conninfo(database.server, user=role))
        finally:
            admin.execute(f"drop role {role}".encode())
    assert done.returncode == 1
    assert "reads every memory" in line(done, "error", "role")


def test_an_installer_url_of_another_database_or_role_is_an_error(
    database: TestDatabase, new_database: Callable[[str | None], TestDatabase]
) -> None:
    other = new_database(None)
    done = examined(database_url=database.server, install_url=other.owner)
    assert "two databases" in line(done, "error", "owner")
    done = examined(database_url=database.server, install_url=database.dba)
    assert "does not own the schema" in line(done, "error", "owner")


def test_a_table_that_lost_its_row_level_security_is_an_error(
    database: TestDatabase, owner: psycopg.Connection
) -> None:
    owner.execute("alter table memory.usage no force row level security")
    owner.execute("alter table memory.memories_3 disable row level security")
    done = examined(**urls(database))
    assert done.returncode == 1
    assert "memories_3, usage" in line(done, "error", "row-level security")


def test_a_clock_that_stands_still_is_a_warning(
    database: TestDatabase, owner: psycopg.Connection
) -> None:
    owner.execute("""update memory.settings set value = '"2026-01-01"' where name = 'clock.test'""")
    done = examined(**urls(database))
    assert done.returncode == 0
    assert "clock.test = 2026-01-01" in line(done, "warning", "settings")


def test_an_endpoint_that_fails_is_told_with_its_backlog_and_the_other_model(
    database: TestDatabase, server: psycopg.Connection
) -> None:
    for number in range(3):
        server.execute(
            "select from memory.save(user_id => 'a', agent_id => 'b', content => %s)",
            (f"memory {number}",),
        )
    for number in range(2):
        server.execute("select from memory.claim_unembedded(1)")
        server.execute(
            """select memory.postpone_embedding(user_id => 'a', memory_id => (
                select (m.l ->> 'id')::uuid from memory.list_reply('a', 'b') as r (reply),
                    jsonb_array_elements(r.reply -> 'memories') as m (l)
                offset %s limit 1), seconds => 60, error => 'answered 500')""",
            (number,),
        )
    done = examined(
        embedding_base_url=NOWHERE + "/v1",
        embedding_model="other",
        embedding_dimensions=384,
        embedding_retries=0,
        **urls(database),
    )
    assert done.returncode == 1
    assert "3 memories wait for a vector" in line(done, "warning", "backlog")
    assert "answered 500 (2)" in line(done, "warning", "backlog")
    assert "does not answer" in line(done, "error", "embedding")


def test_settings_that_name_another_model_than_the_recorded_one_are_an_error(
    database: TestDatabase, owner: psycopg.Connection
) -> None:
    owner.execute("update memory.embedding_model set name = 'another'")
    done = examined(**urls(database))
    assert done.returncode == 1
    errors = [entry for entry in done.stdout.splitlines() if entry.startswith("error")]
    assert len(errors) == 1
    assert "holds vectors of another with 384 dimensions" in errors[0]


@pytest.fixture
def serving(database: TestDatabase, tmp_path: Path) -> "Callable[[], ServerProcess]":
    return lambda: launch(tmp_path, **urls(database))


def test_as_a_client_it_says_who_it_is_and_leaves_nothing_behind(
    database: TestDatabase,
    serving: Callable[[], ServerProcess],
    dba: psycopg.Connection,
) -> None:
    token = make_token(database, "alice", "coder", "--share-by-default")
    server = serving()
    try:
        server.wait_ready()
        done = process("--url", server.url, "--token", token)
        through_variable = process("--url", server.url, token=token)
        without = process("--url", server.url)
        unknown = process("--url", server.url, "--token", "mph_unknown")
        elsewhere = process("--url", f"{server.base}/mpc", "--token", token)
    finally:
        server.stop()
    stopped = process("--url", server.url, "--token", token)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "user alice, agent coder" in line(done, "ok", "identity")
    assert "found it, by keywords, vector" in line(done, "ok", "search_memories")
    assert "removed it for good" in line(done, "ok", "forget_memory")
    assert through_variable.returncode == 0, through_variable.stdout
    for refused in (without, unknown):
        assert refused.returncode == 1
        assert "missing, unknown or revoked" in line(refused, "error", "connection")
    assert elsewhere.returncode == 1
    assert "the path of MCP is /mcp" in line(elsewhere, "error", "connection")
    assert stopped.returncode == 1
    assert "does not answer" in line(stopped, "error", "connection")
    assert token not in done.stdout + done.stderr + stopped.stdout
    for table in ("memories", "versions", "words", "embedding_queue", "usage"):
        query = sql.SQL("select count(*) from memory.{}").format(sql.Identifier(table))
        row = dba.execute(query).fetchone()
        assert row == (0,), table


def test_as_a_client_without_tokens_it_is_the_local_user(
    serving: Callable[[], ServerProcess],
) -> None:
    server = serving()
    try:
        server.wait_ready()
        done = process("--url", server.url)
    finally:
        server.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "user local, agent default" in line(done, "ok", "identity")


def test_something_else_at_the_url_is_an_error() -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        done = process("--url", f"http://127.0.0.1:{other.server_port}/mcp")
        other.shutdown()
    assert done.returncode == 1
    assert "is not memphant" in line(done, "error", "connection")
