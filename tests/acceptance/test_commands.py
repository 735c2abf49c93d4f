"""The commands besides serving, each as a process."""

import subprocess

import pytest
from tests.acceptance.conftest import NewDatabase, run, urls
from tests.conftest import TestDatabase

from memphant import __version__, schema


@pytest.fixture(scope="module")
def installed(template: str, new_database: NewDatabase) -> TestDatabase:  # noqa: ARG001
    """A database that `memphant install` made."""
    database = new_database(None)
    done = run("install", "--partitions", "2", **urls(database))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Ran 0001_core")
    return database


def test_install_again_changes_nothing(installed: TestDatabase) -> None:
    again = run("install", **urls(installed))
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("The tables were there. Functions, policies and grants are")


def test_install_plan_prints_the_sql_and_runs_nothing(new_database: NewDatabase) -> None:
    database = new_database(None)
    plan = run("install", "--plan", **urls(database))
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.startswith("begin;")
    assert plan.stdout.rstrip().endswith("commit;")
    for file in (*schema.migrations(), *schema.code()):
        assert file.text in plan.stdout
    with database.connect(database.owner) as connection:
        assert connection.execute("select to_regnamespace('memory')").fetchone() == (None,)


def test_a_database_without_the_schema_is_told_what_to_run(new_database: NewDatabase) -> None:
    database = new_database(None)
    for arguments in (["serve"], ["token", "list"]):
        refused = run(*arguments, port=0, **urls(database))
        assert refused.returncode == 1
        assert "memphant install" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_tokens_are_listed_without_their_secrets(installed: TestDatabase) -> None:
    made = run("token", "create", "--user", "amy", "--agent", "bot", **urls(installed))
    token = made.stdout.strip()
    assert token.startswith("mph_")
    assert "It is not shown again." in made.stderr
    listed = run("token", "list", **urls(installed))
    assert "amy / bot" in listed.stdout
    assert token not in listed.stdout
    wrong = run("token", "revoke", "amy", **urls(installed))
    assert wrong.returncode == 1
    assert "'amy' is not the id of a token" in wrong.stderr


def test_the_demo_saves_finds_and_changes_nothing_the_second_time(
    installed: TestDatabase,
) -> None:
    first = run("demo", **urls(installed))
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("     saved  ") == 6
    with installed.connect(installed.dba) as dba:
        before = dba.execute(
            "select id, content, tags, confidence from memory.memories order by id"
        ).fetchall()
    second = run("demo", **urls(installed))
    assert second.stdout.count("reinforced  ") == 6
    with installed.connect(installed.dba) as dba:
        after = dba.execute(
            "select id, content, tags, confidence from memory.memories order by id"
        ).fetchall()
    assert after == before

    answers = {block.splitlines()[0]: block for block in first.stdout.split("\n\n")}
    for question, answer in {
        "Where did I move to?": "Lisbon",
        "ERR_QX_7719": "ERR_QX_7719 until",
        "Which food must be avoided?": "花生",
        "什么时候开会？": "下周三",
        "谁在学乐器？": "cello",
    }.items():
        best = answers[question].splitlines()[1]
        assert answer in best, answers[question]
    assert "vector" in first.stdout
    assert "keyword" in first.stdout

    found = run("search", "peanut allergy", "--user", "demo", "--agent", "demo", **urls(installed))
    assert found.returncode == 0, found.stderr
    assert "花生" in found.stdout.splitlines()[0]
    limited = run("search", "ERR_QX_7719", "--user", "demo", "--agent", "demo", "--limit", "1",
                  **urls(installed))  # fmt: skip
    assert len(limited.stdout.splitlines()) == 2


@pytest.mark.skipif(
    subprocess.run(["which", "psql"], capture_output=True, check=False).returncode != 0,
    reason="no psql on this machine",
)
def test_psql_reads_every_memory_of_a_configured_database(installed: TestDatabase) -> None:
    with installed.connect(installed.server) as connection:
        connection.execute("select memory.save('psqluser', 'bot', 'psql sees me')")
    shown = run(
        "psql", "--", "-Atc", "select content from memory.memories where user_id = 'psqluser'",
        **urls(installed),
    )  # fmt: skip
    assert shown.stdout == "psql sees me\n", shown.stderr


def test_version_and_help_do_not_need_a_database_or_a_valid_setting() -> None:
    version = run("--version", port="nonsense")
    assert (version.returncode, version.stdout) == (0, f"memphant {__version__}\n")
    shown = run("--help", database_url="nonsense")
    assert shown.returncode == 0
    for name in ("serve", "install", "token", "adopt", "psql", "search", "demo"):
        assert name in shown.stdout
