"""Where compiled kernels are kept between processes: one folder for each version of their sources and tools.

A change to any file of this package, to numba, LLVM, Python or the processor gives another folder, so a stale kernel is
never loaded (numba itself watches only the file a function stands in). `CONVOY_KERNEL_CACHE` names another place.
What never lives here: compiling.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from ops.cpu.target import host

VARIABLE = "CONVOY_KERNEL_CACHE"
KEPT_DAYS = 30


@functools.cache
def folder() -> Path:
    """The folder of this version, made if it is not there; folders unused for a month are removed."""
    given = os.environ.get(VARIABLE)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    top = Path(given) if given else base / "convoy" / "kernels"
    mine = top / _fingerprint()
    mine.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        os.utime(mine)  # its age is the time since its last use
        _sweep(top)
    return mine


def _fingerprint() -> str:
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.name.encode() + path.read_bytes())
    target = host()
    for part in (sys.version, version("numba"), version("llvmlite"), version("numpy"), target.cpu, target.features):
        found.update(part.encode())
    return found.hexdigest()[:16]


def _sweep(top: Path) -> None:
    oldest = time.time() - KEPT_DAYS * 86400
    for path in top.iterdir():
        if path.is_dir() and path.stat().st_mtime < oldest:
            shutil.rmtree(path, ignore_errors=True)
