"""The cluster on disk: created whole or not at all, checked before it is served, its defaults."""

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from memphant.accounts import Account, EmbeddedPostgresError, make_private, open_file

logger = logging.getLogger(__name__)

MAJOR_VERSION = "18"
SUPERUSER = "postgres"
SHARED_MEMORY_BYTES = 320 * 2**20  # one parallel HNSW build: maintenance_work_mem and some room

# Used unless postgresql.conf, ALTER SYSTEM or the caller says otherwise. The log must not hold what
# users said: a statement, its parameters, and the message and detail of an error can all quote it,
# so errors of clients (who are told anyway) are not logged and details are left out.
DEFAULTS = {
    "shared_buffers": "256MB",
    "max_connections": "100",
    "maintenance_work_mem": "256MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "logging_collector": "off",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}


@dataclass(frozen=True)
class Cluster:
    """The data of one Postgres server, in memphant's data directory `root`."""

    root: Path
    account: Account

    @property
    def data_dir(self) -> Path:
        return self.root / "postgres"

    @property
    def log(self) -> Path:
        return self.root / "postgres.log"

    def ensure(self, programs: Path, lock: int) -> None:
        """Create the cluster if there is none; raise if what is there cannot be served.

        initdb inherits the descriptor `lock`, so that it counts as alive should we be killed.
        """
        if self.data_dir.exists() and any(self.data_dir.iterdir()):
            self._check()
            return
        # in a folder beside it, renamed when complete: a start that is killed leaves no half of one
        partial = self.root / "postgres.partial"
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(partial)
        make_private(partial, self.account)
        command = [
            str(programs / "initdb"),
            f"--pgdata={partial}",
            f"--username={SUPERUSER}",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--no-instructions",
        ]
        process = self.account.spawn(command, output=subprocess.PIPE, keep=(lock,))
        try:
            output = process.communicate()[0].decode(errors="replace")
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if process.returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)  # it may be what fills the disk
            raise self.failure("Postgres could not create its data directory", output)
        with (partial / "postgresql.conf").open("a") as file:
            file.write("\n# memphant's defaults; what follows them here wins\n")
            file.write("include_if_exists = '../defaults.conf'\n")
        try:
            partial.rename(self.data_dir)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"{self.data_dir} cannot be replaced by the new data directory ({error.strerror}). "
                f"If it is a mount point, mount the volume at {self.root} instead."
            ) from error

    def _check(self) -> None:
        try:
            version = (self.data_dir / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise EmbeddedPostgresError(
                f"{self.data_dir} holds something else than a Postgres cluster (no PG_VERSION). "
                "Move it away or choose another data directory."
            ) from None
        if version != MAJOR_VERSION:
            raise EmbeddedPostgresError(
                f"The data in {self.data_dir} was written by PostgreSQL {version}; this memphant "
                f"brings {MAJOR_VERSION}, which cannot read it. With the memphant (or PostgreSQL "
                f"{version}) that wrote it, run pg_dump --format=custom --file=memphant.dump "
                f"memphant; move {self.data_dir} away, start this memphant once, and "
                "load the dump with pg_restore --clean --if-exists."
            )
        status = self.data_dir.stat()
        if status.st_uid != self.account.uid:
            raise EmbeddedPostgresError(
                f"{self.data_dir} belongs to user id {status.st_uid}, but Postgres would run as "
                f"'{self.account.name}' ({self.account.uid}). Run memphant as the owner, or hand "
                f"the folder over: chown -R {self.account.name} {self.data_dir}"
            )
        if status.st_mode & 0o027:
            # a mounted volume may have been opened to a group, which Postgres refuses
            self.data_dir.chmod(0o700)

    def write_defaults(self) -> None:
        """Write the file that postgresql.conf includes; outside the folder that others own."""
        defaults = dict(DEFAULTS)
        with contextlib.suppress(OSError):
            memory = os.statvfs("/dev/shm")
            if memory.f_frsize * memory.f_blocks < SHARED_MEMORY_BYTES:
                # workers share memory there, and Docker gives 64 MB: build indexes without them
                defaults["max_parallel_maintenance_workers"] = "0"
                logger.info("/dev/shm is small: indexes are built without parallel workers")
        lines = [f"{name} = '{value}'\n" for name, value in defaults.items()]
        note = (
            "# Written at every start. Change settings with ALTER SYSTEM or in postgresql.conf.\n"
        )
        target = self.root / "defaults.conf"
        partial = target.with_name("defaults.conf.partial")
        with open(open_file(partial, os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.writelines([note, *lines])
            os.fchmod(file.fileno(), 0o644)
        partial.replace(target)

    def failure(self, what: str, output: str) -> EmbeddedPostgresError:
        """An error with the telling lines of what Postgres said, and advice."""
        telling = re.findall(r"^.*(?:FATAL|PANIC|ERROR|error|could not).*$", output, re.MULTILINE)
        said = "; ".join(line.strip() for line in telling[-4:]) or "it left no message"
        text = f"{what} {said}"
        advice = f"The whole log is {self.log}."
        if "No space left" in text or shutil.disk_usage(self.root).free < 2**22:
            advice = f"The disk is full: free some space for {self.root} and start again."
        elif "quota exceeded" in text:
            advice = "The disk quota is used up: free some space and start again."
        elif "Permission denied" in text or "Read-only file system" in text:
            advice = f"'{self.account.name}' must be able to write and run programs there."
        elif "Address already in use" in text:
            advice = "Another program uses that TCP port: choose another one."
        return EmbeddedPostgresError(f"{what}: {said}. {advice}" if output else f"{what}. {advice}")
