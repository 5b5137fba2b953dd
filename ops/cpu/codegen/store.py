"""The store of compiled kernels between processes: one folder for each version of their sources and
tools.

A change to any file of `ops.cpu`, to numba, LLVM, NumPy, Python or the processor gives another
folder, so a stale kernel is never loaded. numba itself watches only the file that holds a function.
`CONVOY_KERNEL_CACHE` names another place. If several processes start at once, one compiles each
kernel and the others wait for it (`alone`). Machine code is loaded only from files of this user, in
a folder that no other user can replace. Without such a folder, each process compiles its kernels in
memory.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from ops.cache import cache_folder
from ops.cpu.codegen.owned import Hold, NotOurs, check_way, lock, make_folder, open_file, sweep
from ops.cpu.codegen.target import host

VARIABLE = "CONVOY_KERNEL_CACHE"
KEPT_DAYS = 30
DIGEST_BYTES = 32
OBJECT = ".o"  # machine code, as linkers know it
FOLDERS = "[0-9a-f]" * 16  # the names that `_fingerprint` gives to the folders of versions
# number of names that are tried in the temporary folder, where another user may have taken some
TEMPORARY = 9
TRIES = 3  # attempts to make the folder again after another process removed it
NOWHERE = "each process compiles its kernels in memory, which takes longer"

_log = logging.getLogger("ops.kernels")


class Place(NamedTuple):
    """`folder`: where kernels are kept, or None. `trouble`: a warning for the user, or ""."""

    folder: Path | None
    trouble: str = ""


@functools.cache
def place() -> Place:
    """Return the folder of this version, and make it if it is missing. Folders that were unused for
    a month are removed.

    If the home folder cannot hold it, it lies in the temporary directory, under a name with the
    user's number.
    """
    given = os.environ.get(VARIABLE)
    key = _fingerprint()
    trouble = ""
    for top in _tops(given):
        try:
            found = _made(top, key)
        except OSError as error:
            if given or isinstance(error, NotOurs):
                asked = f"{VARIABLE}: " if given else ""
                trouble = trouble or f"{asked}no kernels are kept in {top}: {_words(error, top)}"
            continue
        return Place(found, trouble and f"{trouble}; they are kept in {top}")
    return Place(None, f"{trouble or 'there is no folder to keep kernels in'}; {NOWHERE}")


def _tops(given: str | None) -> Iterator[Path]:
    """Yield the folders that may hold kernels, the best first."""
    if given:
        yield Path(given)
    else:
        with suppress(RuntimeError):  # no HOME, and no user of this number
            yield cache_folder("kernels")
    with suppress(FileNotFoundError):  # no temporary folder that can be written to
        top = Path(tempfile.gettempdir()) / f"convoy-kernels-{os.geteuid()}"
        yield top
        for number in range(2, TEMPORARY + 1):
            yield top.with_name(f"{top.name}-{number}")


def _made(top: Path, key: str) -> Path:
    """Make the folder `key` in `top`, and the folders above it that are missing. Raises OSError or
    NotOurs."""
    _make_way(top)
    check_way(top)
    folder = top.absolute() / key
    make_folder(folder)
    os.utime(folder)  # its age is the time since its last use
    oldest = time.time() - KEPT_DAYS * 86400
    sweep(top, FOLDERS, lambda old: old.lstat().st_mtime < oldest)
    return folder


def _make_way(folder: Path) -> None:
    if not os.path.lexists(folder):
        _make_way(folder.parent)
        with suppress(FileExistsError):  # another process was faster
            folder.mkdir(mode=0o700)


def _words(error: OSError, where: Path) -> str:
    inner = f"{error.filename}: " if error.filename and str(error.filename) != str(where) else ""
    return f"{inner}{error.strerror}"


class Kept:
    """The machine code of one kernel, as a file in `folder`; without a folder it is not kept."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._path = None if folder is None else folder / f"{name}{OBJECT}"

    def __repr__(self) -> str:
        return f"<kernel in {self._path}>"

    def read(self) -> bytes | None:
        """Return the machine code, or None if it must be compiled. A file that is not this user's
        is not read."""
        if self._path is None:
            return None
        try:
            with os.fdopen(open_file(self._path, os.O_RDONLY), "rb") as file:
                return _checked(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            _tell(
                f"{self._path}: {error.strerror}: this kernel is compiled, and not loaded "
                "from there"
            )
            return None

    def write(self, code: bytes) -> None:
        """Store the code in one step, so that no process reads half of it. A failure is logged as a
        warning."""
        if self._path is None:
            return
        new = self._path.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}")
        try:
            with os.fdopen(open_file(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            new.replace(self._path)
        except OSError as error:
            _not_kept(self._path.parent, error)
            with suppress(OSError):
                new.unlink()


def _checked(data: bytes) -> bytes | None:
    """Return the code that follows its SHA-256. None if it is damaged, as by a full disk or a power
    cut."""
    code = data[DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == data[:DIGEST_BYTES] else None


@contextmanager
def alone(name: str, wait: bool = True) -> Iterator[Kept | None]:
    """Keep other processes from compiling or loading `name`, and its folder from being swept.
    Without `wait`, yields None if another process compiles or loads it at this moment.

    The lock is the operating system's: it ends with the process that holds it. Where the file
    system has no locks, several processes may compile the same kernel.
    """
    with ExitStack() as ends:
        folder = None
        busy = False
        try:
            folder = _in_use(ends)
            if folder is not None:
                file = open_file(_lock_file(folder, name), os.O_RDWR | os.O_CREAT)
                ends.callback(os.close, file)
                lock(file, wait=wait)
        except BlockingIOError:
            busy = True
        except OSError as error:
            _not_kept(folder or place().folder, error)
            folder = None
        yield None if busy else Kept(folder, name)


def _in_use(ends: ExitStack) -> Path | None:
    """Return the folder, safe from sweeps until `ends`. It is made again if it was removed. None if
    nothing is kept. Raises OSError."""
    for _ in range(TRIES):
        folder, trouble = place()
        if trouble:
            _tell(trouble)
        if folder is None:
            return None
        if (hold := Hold.take(folder, shared=True)) is not None:
            ends.callback(hold.release)
            return folder
        place.cache_clear()
    return None


def seen(name: str) -> bool:
    """Whether some process has begun to compile the kernel. If not, the store does not have it."""
    folder = place().folder
    return folder is not None and os.path.lexists(_lock_file(folder, name))


def kept(pattern: str) -> bool:
    """Whether the store has a compiled kernel whose name matches `pattern`."""
    folder = place().folder
    with suppress(OSError):  # it was removed at this moment
        return folder is not None and any(folder.glob(f"{pattern}{OBJECT}"))
    return False


def _lock_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"


def _not_kept(folder: Path | None, error: OSError) -> None:
    _tell(f"{folder}: {error.strerror}: kernels are compiled, but not kept there")


def _tell(text: str) -> None:
    _tell_once(os.getpid(), text)


@functools.cache
def _tell_once(process: int, text: str) -> None:
    """Log a text once for each process. A forked process repeats its parent's texts, which may not
    have reached the user."""
    _log.warning("%s", text)


def _fingerprint() -> str:
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(path.name.encode() + path.read_bytes())
    target = host()
    for part in (
        sys.version,
        version("numba"),
        version("llvmlite"),
        version("numpy"),
        target.cpu,
        target.features,
    ):
        found.update(part.encode())
    return found.hexdigest()[:16]
