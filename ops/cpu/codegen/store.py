"""Where compiled kernels are kept between processes: one folder for each version of their sources and tools.

A change to any file of `ops.cpu`, to numba, LLVM, Python or the processor gives another folder, so a stale kernel is
never loaded; numba itself watches only the file a function stands in. `CONVOY_KERNEL_CACHE` names another place. Of
several processes that start at once one compiles each kernel and the others wait for it (`alone`).
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from ops.cpu.codegen.target import host

VARIABLE = "CONVOY_KERNEL_CACHE"
KEPT_DAYS = 30
OBJECT = ".o"  # machine code, as linkers know it


@functools.cache
def folder() -> Path:
    """The folder of this version, made if it is not there; folders unused for a month are removed.

    Where nothing can be written there it is one of the temporary directory, its own for each user.
    """
    given = os.environ.get(VARIABLE)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    top, key = Path(given) if given else base / "convoy" / "kernels", _fingerprint()
    if not _writable(top / key):
        top = Path(tempfile.gettempdir()) / f"convoy-kernels-{os.getuid()}"
        top.mkdir(mode=0o700, exist_ok=True)
        if top.stat().st_uid != os.getuid():  # somebody else's: code is not loaded from there
            top = Path(tempfile.mkdtemp(prefix="convoy-kernels-"))
        (top / key).mkdir(parents=True, exist_ok=True)
    mine = top / key
    with suppress(OSError):
        os.utime(mine)  # its age is the time since its last use
        _sweep(top)
    return mine


def _writable(path: Path) -> bool:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK)


@contextmanager
def alone(name: str, wait: bool = True) -> Iterator[Path | None]:
    """While this lasts no other process compiles or loads `name`; gives the folder to keep it in. Without `wait`: None
    if one does at this moment.

    The lock is the operating system's: it goes with the process that holds it.
    """
    place = folder()
    with _lock_file(place, name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield None
            return
        yield place


def seen(name: str) -> bool:
    """Whether some process has begun to compile it: if not, it is not there."""
    return _lock_file(folder(), name).exists()


def kept(pattern: str) -> bool:
    """Whether anything of such a name is there, compiled."""
    return any(folder().glob(f"{pattern}{OBJECT}"))


def _lock_file(place: Path, name: str) -> Path:
    return place / f"{name}.lock"


def _fingerprint() -> str:
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
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
