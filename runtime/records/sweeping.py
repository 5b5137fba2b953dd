"""Finding and removing the lock files that killed processes have left."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from runtime.records.lock_file import LOCK, NEW, is_held, is_same, read
from runtime.records.run_files import Damaged

# a file whose flock cannot be queried counts as left behind so long after its last change
LEFT_SECONDS = 600.0


def sweep(folder: Path) -> None:
    """Remove the files that killed processes left: locks of this kernel that no process holds, then
    files without a lock next to them."""
    for is_left in (_is_left_lock, _is_left_part):
        for path in folder.glob(".up-*"):
            with contextlib.suppress(OSError):
                if is_left(path):
                    path.unlink()


def _is_left_lock(path: Path) -> bool:
    if path.suffix != LOCK or is_held(path) is not False:
        return False
    try:
        holder = read(path)
    except Damaged:
        return _is_old(path)
    return is_same(path, holder) or (holder.host == platform.node() and _is_old(path))


def _is_left_part(path: Path) -> bool:
    """Whether `path` is a file without its lock. A lock that is being made has no `.lock` file yet:
    its part counts as left behind if it is old and no process holds it."""
    if path.suffix == LOCK or path.with_suffix(LOCK).exists():
        return False
    return path.suffix != NEW or (_is_old(path) and is_held(path) is False)


def _is_old(path: Path) -> bool:
    return abs(time.time() - path.stat().st_mtime) > LEFT_SECONDS


def beside(lock: Path) -> Iterator[Path]:
    """Return the files next to a lock: a wish, and parts of wishes."""
    return (path for path in lock.parent.glob(f"{lock.stem}.*") if path != lock)
