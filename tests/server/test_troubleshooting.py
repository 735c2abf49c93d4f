"""Every command of docs/troubleshooting.md works as it stands there, beside a running server."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.conftest import ServerProcess, environment, launch

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ")
    for block in BLOCKS
    for line in block.splitlines()
    if line.startswith("$ ")
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Holds the data, and a command `memphant` that is this checkout."""
    path = Path(tempfile.mkdtemp(prefix="memphant-troubleshooting-", dir="/tmp"))
    path.chmod(0o755)
    program = path / "bin" / "memphant"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memphant.cli "$@"\n')
    program.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """A server with the embedded Postgres, as the page assumes."""
    started = launch(folder, data_dir=folder / "data")
    started.wait_ready()
    yield started
    started.stop()


def test_the_page_has_commands_for_each_of_its_four_questions() -> None:
    sections = PAGE.read_text().split("\n## ")[1:]
    assert len(sections) == 4
    assert all("\n$ memphant " in section for section in sections)


# in one test, because their order is part of the page: what is changed is put back
def test_every_command_of_the_page_works(folder: Path, server: ServerProcess) -> None:
    variables = environment(data_dir=folder / "data")
    variables["PATH"] = f"{folder / 'bin'}{os.pathsep}{variables['PATH']}"
    failed = []
    for command in COMMANDS:
        if command.startswith("curl") and shutil.which("curl") is None:
            continue
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.replace("http://127.0.0.1:8077", server.base)],
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            failed.append(f"{command}\n{done.stdout}{done.stderr}")
    assert failed == []
    # the page leaves everything as it was
    changed = subprocess.run(
        ["bash", "-c", "memphant doctor | grep settings:"],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "all at their defaults" in changed.stdout
