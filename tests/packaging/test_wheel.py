"""The wheel holds the SQL, the model's graph and its data, byte for byte."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def files(folder: Path) -> dict[str, bytes]:
    """Every file under a folder by its path, without what Python leaves behind."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def packaged(wheel: zipfile.ZipFile, prefix: str) -> dict[str, bytes]:
    """The same of the wheel."""
    return {
        name.removeprefix(prefix): wheel.read(name)
        for name in wheel.namelist()
        if name.startswith(prefix) and not name.endswith("/")
    }


def test_the_packaged_sql_is_the_checkouts_byte_for_byte(wheel: zipfile.ZipFile) -> None:
    expected = files(ROOT / "sql")
    assert "90_security.sql" in expected
    assert "migrations/0001_core.sql" in expected
    assert packaged(wheel, "memphant/sql/") == expected


def test_the_package_is_complete(wheel: zipfile.ZipFile) -> None:
    found = packaged(wheel, "memphant/")
    expected = files(ROOT / "server" / "memphant")
    assert {name: found.get(name) for name in expected} == expected
    assert {"bundled/e5-rowint8.onnx", "bundled/offsets.npy"} <= set(found)


def test_nothing_else_is_packaged(wheel: zipfile.ZipFile) -> None:
    strangers = [
        name
        for name in wheel.namelist()
        if not name.startswith("memphant/") and ".dist-info/" not in name
    ]
    assert strangers == []
    assert not [name for name in wheel.namelist() if name.endswith((".pyc", ".key", ".env"))]


def test_the_command_is_an_entry_point(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "memphant = memphant.cli:main" in wheel.read(name).decode()


def test_the_packaged_copy_is_what_an_installed_memphant_loads(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    wheel.extractall(tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from memphant import schema; print(schema.sql_folder()); print(len(schema.code()))",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    folder, count = done.stdout.split()
    assert Path(folder) == tmp_path / "memphant" / "sql"
    assert int(count) == len(list((ROOT / "sql").glob("[0-9][0-9]_*.sql")))
