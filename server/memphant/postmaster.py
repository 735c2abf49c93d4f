"""A Postgres server as other processes see it: locks, postmaster.pid and signals.

Several memphant processes may share one data directory. Advisory locks on three files in it order
them; such a lock vanishes with the process that holds it, so a kill -9 leaves nothing stale:

- `start.lock`, exclusive, is held while a process starts or stops the server;
- `users.lock`, shared, is held by every process that uses the server. Who gets it exclusively
  on leaving is the last one and stops the server;
- `postgres.lock`, exclusive, is inherited by Postgres itself. While it is held some process of
  the cluster is alive. Once it is free, postmaster.pid is stale, whatever its number now means
  (a zombie, or another program after a container was restarted).
"""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from memphant.accounts import EmbeddedPostgresError, open_file
from memphant.cluster import SUPERUSER

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
START_SECONDS = 120.0  # recovery after a crash can take most of it
STOP_SECONDS = 30.0


class Lock:
    """An advisory lock on a file. It belongs to the open file, so a child can inherit it."""

    def __init__(self, path: Path) -> None:
        self.descriptor = open_file(path, os.O_RDWR)

    def try_exclusive(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share(self) -> None:
        fcntl.flock(self.descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; the lock lives on in a child that inherited it."""
        os.close(self.descriptor)


@contextlib.contextmanager
def start_lock(root: Path) -> Iterator[None]:
    with contextlib.closing(Lock(root / "start.lock")) as lock:
        if not wait_until(lock.try_exclusive, START_SECONDS + STOP_SECONDS):
            raise EmbeddedPostgresError(
                f"Another memphant process has been starting or stopping the Postgres in {root} "
                "for minutes. End that process and try again."
            )
        yield


def _pid_file(data_dir: Path) -> Sequence[str]:
    """The lines of postmaster.pid: pid, folder, start time, port, socket folder, address, …"""
    try:
        return (data_dir / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return ()


def address(data_dir: Path) -> tuple[Path, int] | None:
    """Socket folder and port of the server that runs in `data_dir`."""
    lines = _pid_file(data_dir)
    if len(lines) >= 5 and lines[3].isdigit() and lines[4]:
        return Path(lines[4]), int(lines[3])
    return None


def postmaster_pid(data_dir: Path) -> int | None:
    """The process that serves `data_dir`, from postmaster.pid, if it lives and is what it says."""
    lines = _pid_file(data_dir)
    if not lines or not lines[0].strip().isdigit():
        return None
    pid = int(lines[0])
    process = Path("/proc") / str(pid)
    with contextlib.suppress(OSError):
        if process.joinpath("cwd").readlink() == data_dir:
            return pid
    try:
        command = process.joinpath("cmdline").read_bytes()  # empty for a zombie
    except OSError:
        if sys.platform == "linux":
            return None
        ps = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        command = subprocess.run(ps, capture_output=True, check=False).stdout
    return pid if os.fsencode(data_dir) in command else None


def unreachable(place: tuple[Path, int]) -> str | None:
    """Why the server on this socket does not accept connections, or None if it does."""
    import psycopg  # here, because importing it takes longer than all the rest

    folder, port = place
    try:
        psycopg.connect(
            host=str(folder), port=port, user=SUPERUSER, dbname="postgres", connect_timeout=5
        ).close()
    except psycopg.OperationalError as error:
        return str(error).strip()
    return None


def _settled(data_dir: Path) -> bool:
    """Whether the server is past starting and past the recovery after a crash."""
    place = address(data_dir)
    reason = unreachable(place) if place else None
    if reason is None or "No such file" in reason:
        return True  # ready, or out of reach
    # a connection that merely breaks off is what a crash looks like at its beginning
    busy = re.search("starting up|in recovery|not yet accepting", reason)
    return "FATAL" in reason and not busy


def shut_down(root: Path, data_dir: Path) -> bool:
    """Stop the server that some memphant started, and wait for its last process to end.

    Returns False if it is still there: it hangs, or runs where we cannot signal it.
    An immediate stop follows after STOP_SECONDS; what was committed survives that too.
    """
    with contextlib.closing(Lock(root / "postgres.lock")) as alive:
        # Postgres forgets a request that comes while it starts again after a crash of a backend
        wait_until(lambda: alive.try_exclusive() or _settled(data_dir), STOP_SECONDS)
        for number in (signal.SIGINT, signal.SIGQUIT):  # fast, then without a checkpoint
            if alive.try_exclusive():
                return True
            pid = postmaster_pid(data_dir)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if wait_until(alive.try_exclusive, STOP_SECONDS):
                return True
    logger.warning("postgres in %s could not be stopped from here", data_dir)
    return False


def reap(child: int) -> None:
    """Take the exit status of our postmaster, if it has ended, so that no zombie stays behind."""

    def ended() -> bool:
        try:
            return os.waitpid(child, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    wait_until(ended, 0.1)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition came true within that time; tried every POLL_SECONDS."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
