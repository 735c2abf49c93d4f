"""docker/ without an engine: what must stand in its files, and its steps against a real Postgres.

The steps run over TCP with passwords, as two roles, the way the containers are connected.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.acceptance.conftest import command, environment, launch

from memphant import embedded

DOCKER = Path(__file__).parents[2] / "docker"
COMPOSE = (DOCKER / "compose.yaml").read_text()
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
OWNER, SERVER = "ownersecret", "serversecret"


def test_no_password_has_a_default_and_a_missing_one_is_told() -> None:
    variables = set(re.findall(r"\$\{(\w*PASSWORD)([^}]*)\}", COMPOSE))
    assert {name for name, _ in variables} == {
        "POSTGRES_PASSWORD",
        "MEMPHANT_OWNER_PASSWORD",
        "MEMPHANT_SERVER_PASSWORD",
    }
    assert {rest for _, rest in variables} == {":?set it in docker/.env, see docker/README.md"}
    for line in COMPOSE.splitlines():
        if "PASSWORD:" in line or "postgresql://" in line:
            assert "${" in line, line


def test_the_image_is_not_root_and_tells_its_health() -> None:
    stages = DOCKERFILE.split("\nFROM ")
    assert "\nUSER memphant\n" in stages[-1]
    assert "/health" in stages[-1]
    assert 'ENTRYPOINT ["memphant"]' in stages[-1]


def test_the_server_is_published_on_this_machine_only_and_does_not_get_the_owner() -> None:
    server = COMPOSE.split("\n  server:\n")[1]
    assert re.findall(r'- "(.*):\d+:\d+"', COMPOSE) == ["127.0.0.1"]
    assert 'MEMPHANT_INSTALL_URL: ""' in server
    assert "OWNER_PASSWORD" not in server
    assert re.search(r"^    shm_size: \d+mb$", COMPOSE, re.MULTILINE)


@pytest.fixture
def postgres() -> Iterator[int]:
    """The port of a Postgres on which docker/roles.sql ran."""
    folder = Path(tempfile.mkdtemp(prefix="memphant-docker-", dir="/tmp"))
    folder.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = embedded.start(folder / "data", tcp_port=port, settings={"fsync": "off"})
    try:
        passwords = {"MEMPHANT_OWNER_PASSWORD": OWNER, "MEMPHANT_SERVER_PASSWORD": SERVER}
        subprocess.run(
            [
                *(embedded.binaries() / "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1"),
                *("--file", DOCKER / "roles.sql", running.dsn(user="postgres")),
            ],
            env={**os.environ, **passwords},
            check=True,
            capture_output=True,
        )
        yield port
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_steps_of_the_readme_end_in_a_server_that_wants_a_token(
    postgres: int, tmp_path: Path
) -> None:
    place = f"127.0.0.1:{postgres}/memphant"
    server_url = f"postgresql://memphant_app:{SERVER}@{place}"
    owner_url = f"postgresql://memphant_owner:{OWNER}@{place}"
    # as compose.yaml has it, for the services memphant and server
    as_owner = environment(database_url=server_url, install_url=owner_url)
    as_server = environment(database_url=server_url, install_url="", host="0.0.0.0", port=0)

    def memphant(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments),
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    installed = memphant(as_owner, "install")
    assert installed.returncode == 0, installed.stderr
    refused = memphant(as_server, "serve")
    assert refused.returncode == 1
    assert "Make a token first" in refused.stderr
    made = memphant(as_owner, "token", "create", "--user", "alice", "--agent", "coder")
    assert made.returncode == 0, made.stderr
    assert memphant(as_server, "token", "list").returncode == 1
    serving = launch(tmp_path, database_url=server_url, install_url="", host="0.0.0.0")
    try:
        serving.wait_ready()
        url = f"http://127.0.0.1:{serving.port}/mcp"
        as_client = memphant(as_owner, "doctor", "--url", url, "--token", made.stdout.strip())
        assert as_client.returncode == 0, as_client.stdout
        assert "user alice, agent coder" in as_client.stdout
        assert memphant(as_owner, "doctor", "--url", url).returncode == 1
    finally:
        assert serving.stop() == 0
    sound = memphant(as_owner, "doctor")
    assert sound.returncode == 0, sound.stdout
    assert "warning" not in sound.stdout
    assert memphant(as_owner, "install").returncode == 0
    with psycopg.connect(server_url) as connection, pytest.raises(psycopg.Error):
        connection.execute("alter table memory.memories disable row level security")
