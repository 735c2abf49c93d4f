"""The embedded Postgres: started when no database is configured, stopped by its last user.

Several memphant processes may share one data directory (postmaster.py says how). The folder holds
`postgres` (the cluster), `postgres.log`, `defaults.conf`, `socket`, `password` if TCP was ever on,
`binaries` if they had to be copied, and the locks.

Nothing here is global, and signals are the caller's business. All functions block.
"""

import contextlib
import hashlib
import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memphant.accounts import (
    ELSEWHERE,
    Account,
    EmbeddedPostgresError,
    account_for,
    binaries,
    explain,
    make_private,
    make_root,
    open_file,
    reachable_binaries,
    require_reachable,
)
from memphant.cluster import SUPERUSER, Cluster
from memphant.postmaster import (
    POLL_SECONDS,
    START_SECONDS,
    Lock,
    address,
    postmaster_pid,
    reap,
    shut_down,
    start_lock,
    unreachable,
    wait_until,
)

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "binaries", "default_data_dir", "start"]

logger = logging.getLogger(__name__)

DEFAULT_PORT = 5432  # without TCP it is only part of the socket's name
SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103
LOG_BYTES = 10_000_000

# pgvector's library is built for AVX2 and FMA (SVE on aarch64): on an older CPU this kills the
# backend, which is better found out now than at the first search
CPU_CHECK = "select '[1,2]'::vector <-> '[2,3]'::vector"


def default_data_dir() -> Path:
    """Where memphant keeps its data unless told otherwise."""
    if sys.platform == "win32":
        raise EmbeddedPostgresError(f"There is no embedded Postgres on Windows: {ELSEWHERE[3:]}.")
    if os.geteuid() == 0:
        return Path("/var/lib/memphant")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "memphant"
    # the standard says that a relative path is to be ignored
    data_home = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (data_home if data_home.is_absolute() else Path.home() / ".local/share") / "memphant"


@dataclass
class EmbeddedPostgres:
    """A running server, and this process's claim that it keeps running."""

    data_dir: Path
    socket_dir: Path
    port: int
    tcp_port: int | None
    database: str
    _root: Path = field(repr=False)
    _users: "Lock | None" = field(repr=False)
    _child: int | None = field(default=None, repr=False)

    def dsn(self, *, user: str, dbname: str | None = None) -> str:
        """A libpq connection string over the socket; `dbname` is memphant's unless given."""
        return _conninfo(
            host=str(self.socket_dir), port=self.port, user=user, dbname=dbname or self.database
        )

    def tcp_dsn(self, *, user: str = SUPERUSER, dbname: str | None = None) -> str:
        """The same over TCP, with the generated password, which only the superuser has.

        Raises EmbeddedPostgresError if the server was started without `tcp_port`.
        """
        if self.tcp_port is None:
            raise EmbeddedPostgresError("This Postgres does not listen on TCP: give a tcp_port.")
        password = {"password": _password(self._root)} if user == SUPERUSER else {}
        return _conninfo(
            host="127.0.0.1",
            port=self.tcp_port,
            user=user,
            dbname=dbname or self.database,
            **password,
        )

    def stop(self) -> None:
        """Leave, and stop the server if no other process uses it. A second call does nothing."""
        if self._users is not None:
            with start_lock(self._root):
                self._leave()

    def _abandon(self) -> None:
        """Give up the claim and leave the server as it is."""
        users, self._users = self._users, None
        if users is not None:
            users.close()

    def _leave(self) -> None:
        """What `stop` does, for a caller that holds the start lock."""
        users, self._users = self._users, None
        if users is None:
            return
        with contextlib.closing(users):
            if users.try_exclusive() and shut_down(self._root, self.data_dir):
                with contextlib.suppress(OSError):
                    self.socket_dir.rmdir()  # it may be a short one that lies elsewhere
        if self._child is not None:
            reap(self._child)


def start(
    root: Path,
    *,
    tcp_port: int | None = None,
    settings: Mapping[str, str] | None = None,
    database: str = "memphant",
) -> EmbeddedPostgres:
    """Start the Postgres whose data lies in `root`/postgres, or join the one that runs there.

    It listens on a socket that only its account (and root) can reach and, if `tcp_port` is given,
    on that port of 127.0.0.1 with the password in `root`/password. `settings` are server
    parameters that win over everything else. The database exists afterwards and has pgvector.

    Call it again to restart a server that was killed. Raises EmbeddedPostgresError.
    """
    if sys.platform == "win32":
        raise EmbeddedPostgresError(f"There is no embedded Postgres on Windows: {ELSEWHERE[3:]}.")
    account = None
    try:
        root = make_root(root)
        account = account_for(root / "postgres")
        require_reachable(root, account)
        with start_lock(root):
            launcher = _Launcher(root, account, tcp_port, dict(settings or {}), database)
            return launcher.start()
    except OSError as error:
        raise explain(error, root, account) from error


@dataclass
class _Launcher:
    """One call of `start`, under the start lock."""

    root: Path
    account: Account
    tcp_port: int | None
    settings: dict[str, str]
    database: str

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.root, self.account)
        self.data_dir = self.cluster.data_dir
        self.log = self.cluster.log
        self.port = self.tcp_port or DEFAULT_PORT
        self.socket_dir = _socket_dir(self.root, self.account, self.port)
        self.log_start = self.log.stat().st_size if self.log.exists() else 0

    def start(self) -> EmbeddedPostgres:
        users = Lock(self.root / "users.lock")
        alone = users.try_exclusive()
        users.share()
        server = EmbeddedPostgres(
            self.data_dir,
            self.socket_dir,
            self.port,
            self.tcp_port,
            self.database,
            self.root,
            users,
        )
        try:
            self._serve(server, alone)
            self._prepare(server)
        except BaseException:
            server._leave()
            raise
        return server

    def _serve(self, server: EmbeddedPostgres, alone: bool) -> None:
        """Return once `server` answers: one that was running, or one that we started."""
        started = time.monotonic()
        launched: subprocess.Popen[bytes] | None = None
        with contextlib.closing(Lock(self.root / "postgres.lock")) as alive:
            while True:
                orphan = alone
                if launched is None and alive.try_exclusive():
                    if postmaster_pid(self.data_dir) is None:
                        launched = self._launch(alive)
                        server._child = launched.pid
                    else:
                        alive.release()
                        orphan = False  # someone started it by hand: use it, never stop it
                place = address(self.data_dir) or (self.socket_dir, self.port)
                server.socket_dir, server.port = place
                reason = unreachable(place)
                if reason is None and (launched is not None or self._adopt(orphan)):
                    break
                if launched is not None and launched.poll() is not None:
                    where = f" with TCP port {self.tcp_port}" if self.tcp_port else ""
                    raise self.cluster.failure(
                        f"Postgres ended while starting{where}", self._log_tail()
                    )
                if time.monotonic() > started + START_SECONDS:
                    server._abandon()  # stopping it now would begin a long recovery all over
                    raise EmbeddedPostgresError(
                        f"Postgres in {self.data_dir} was not ready in {START_SECONDS:.0f} s "
                        f"({reason}). It may be recovering: see {self.log} and try again."
                    )
                time.sleep(POLL_SECONDS)
        if launched is not None:
            launched.returncode = 0  # it may outlive us on purpose; keeps Popen from warning
        logger.info(
            "postgres ready: %s in %.2f s, socket %s",
            "started" if launched else "joined",
            time.monotonic() - started,
            server.socket_dir,
        )

    def _adopt(self, orphan: bool) -> bool:
        """Whether the server that runs already will do; an orphan that will not is stopped."""
        try:
            running = (self.data_dir / "postmaster.opts").read_text()
        except FileNotFoundError:
            return False  # it is just stopping
        options = self._options()
        missing = [option for option in options if f'"{option}"' not in running]
        if not missing and (not orphan or running.count('"-c"') == len(options)):
            return True
        if orphan and shut_down(self.root, self.data_dir):
            return False  # left behind by a killed process with other settings: start it anew
        if self.tcp_port is not None and f'"port={self.tcp_port}"' not in running:
            raise EmbeddedPostgresError(
                f"The Postgres in {self.data_dir} is in use by another process and does not listen "
                f"on TCP port {self.tcp_port}. Stop that process, or give it the same port."
            )
        missing = [option for option in missing if option.partition("=")[0] in self.settings]
        if missing:
            logger.warning("postgres was running already, without %s", ", ".join(missing))
        return True

    def _options(self) -> list[str]:
        """The parameters on the command line, which nothing inside the server overrides."""
        options = {
            **self.settings,
            "listen_addresses": "127.0.0.1" if self.tcp_port else "",
            "port": str(self.port),
            "unix_socket_directories": str(self.socket_dir),
        }
        return [f"{name}={value}" for name, value in options.items()]

    def _launch(self, alive: Lock) -> subprocess.Popen[bytes]:
        """Start the postmaster. `alive` is held, so no process of the cluster exists."""
        programs = reachable_binaries(self.root, self.account)
        self.cluster.ensure(programs, alive.descriptor)
        make_private(self.socket_dir, self.account)
        socket = self.socket_dir / f".s.PGSQL.{self.port}"
        for stale in (self.data_dir / "postmaster.pid", socket, Path(f"{socket}.lock")):
            # Postgres would take a zombie, or whoever has the number now, for a server
            stale.unlink(missing_ok=True)
        self.cluster.write_defaults()
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES:
                self.log.replace(self.log.with_name("postgres.log.1"))
        output = open_file(self.log, os.O_WRONLY | os.O_APPEND)
        try:
            self.log_start = os.fstat(output).st_size
            command = [str(programs / "postgres"), "-D", str(self.data_dir)]
            for option in self._options():
                command += ["-c", option]
            return self.account.spawn(command, output=output, keep=(alive.descriptor,))
        finally:
            os.close(output)

    def _prepare(self, server: EmbeddedPostgres) -> None:
        """Create database, extension and password where they are missing; try the CPU."""
        import psycopg  # here, because importing it takes longer than joining a server
        from psycopg import sql

        admin = server.dsn(user=SUPERUSER, dbname="postgres")
        try:
            with psycopg.connect(admin, autocommit=True) as connection:
                found = connection.execute(
                    "select from pg_database where datname = %s", [self.database]
                ).fetchone()
                if found is None:
                    connection.execute(
                        sql.SQL(
                            "create database {} template template0 encoding 'UTF8' locale 'C' "
                            "locale_provider builtin builtin_locale 'C.UTF-8'"
                        ).format(sql.Identifier(self.database))
                    )
                if self.tcp_port is not None:
                    # the verifier is made here, so that the password itself is never sent
                    verifier = connection.pgconn.encrypt_password(
                        _password(self.root).encode(), SUPERUSER.encode(), b"scram-sha-256"
                    )
                    connection.execute(
                        sql.SQL("alter role {} password {}").format(
                            sql.Identifier(SUPERUSER), sql.Literal(verifier.decode())
                        )
                    )
            with psycopg.connect(server.dsn(user=SUPERUSER), autocommit=True) as connection:
                connection.execute("create extension if not exists vector")
                self.log_start = self.log.stat().st_size if self.log.exists() else 0
                connection.execute(CPU_CHECK)
        except psycopg.Error as error:
            if wait_until(lambda: "terminated by signal 4" in self._log_tail(), 0.5):
                raise EmbeddedPostgresError(
                    "This CPU lacks instructions that the bundled pgvector is built for (AVX2 and "
                    "FMA on x86-64, SVE on aarch64): its first distance ended Postgres with "
                    f"signal 4. Use another machine, {ELSEWHERE}."
                ) from error
            what = f"Postgres could not prepare the database: {error}"
            raise self.cluster.failure(what, "") from error

    def _log_tail(self) -> str:
        """What Postgres has logged since it was launched or the CPU was tried."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(self.log_start)
            return file.read(100_000).decode(errors="replace")
        return ""


def _conninfo(**parameters: str | int) -> str:
    from psycopg.conninfo import make_conninfo

    return make_conninfo("", **parameters)


def _password(root: Path) -> str:
    """The superuser's password for TCP, made at first use."""
    with open(open_file(root / "password", os.O_RDWR), "r+") as file:
        password = file.read().strip()
        if not password:
            password = secrets.token_urlsafe(24)
            file.write(password + "\n")
    return password


def _socket_dir(root: Path, account: Account, port: int) -> Path:
    """The folder for the socket: in `root`, or a short one if that path would be too long.

    The short one depends on `root` and the environment only, and who joins a running server reads
    it from postmaster.pid, so every process finds the same socket.
    """
    room = SOCKET_PATH_BYTES - len(f"/.s.PGSQL.{port}")
    name = f"memphant-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    run = "/run" if account.dropped else os.environ.get("XDG_RUNTIME_DIR", "")
    for folder in (root / "socket", Path(run) / name):
        if folder.is_absolute() and len(os.fsencode(folder)) <= room:
            writable = folder.parent if folder.parent.is_dir() else None
            if writable is not None and os.access(writable, os.W_OK):
                return folder
    return Path("/tmp") / name
