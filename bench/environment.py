"""A Python environment apart from the project's, for what only a comparison needs."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.vectors import cache_folder


def python_with(requirements: Path) -> Path:
    """An interpreter that has what the file names; installed at first use, then kept."""
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache_folder() / f"{requirements.stem}-{digest}"
    python = folder / "bin" / "python"
    complete = folder / "complete"
    if not complete.exists():
        print(f"installing {requirements.name} into {folder}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
        subprocess.run(install, check=True)
        complete.touch()
    return python
