"""The file of a lock of `up`, `.up-ID.lock` next to the run directories: its content, and whether
it is held.

The owner holds an flock on the file. It writes its identity and the current run into the file, and
every two seconds the time. A process on the same kernel queries the flock. A process on another
host of a shared file system reads the time. A file `.up-ID.end` next to the lock asks `up` to end,
from every machine that can write to the folder.

    .up-ID.lock   {"up": ID, "host": .., "boot": .., "pid": .., "run": .., "state": .., "renewed":
                  ..}
    .up-ID.end    {"now": false}
"""

from __future__ import annotations

import fcntl
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.machine.boot import boot_id
from runtime.records import run_files

RENEW_SECONDS = 2.0
SIZE = 2048  # bytes of the file, always: one write replaces the whole content
LONGEST_NAME = 255  # bytes of a file's name
LOCK = ".lock"
END = ".end"
NEW = ".new"
RUNNING = "running"  # the states of an `up`
BETWEEN = "between two runs"
CHOOSING = "choosing a preset"


@dataclass(frozen=True)
class Holder:
    """The content of a lock file: the host and the process that hold the lock, the name of the
    current run directory, the state of `up`, and the time of the last renewal in seconds since
    1970.

    `inode` identifies the file as the holder sees it. A process that sees another inode looks
    through another mount, where the flock may not count.
    """

    up: str
    host: str
    boot: str
    pid: int
    run: str = ""
    state: str = RUNNING
    renewed: float = 0.0
    inode: str = ""


def path_of(folder: Path, up: str, suffix: str = LOCK) -> Path:
    """Return the path of a lock file or, with another suffix, of a file next to it."""
    return folder / f".up-{up}{suffix}"


def read(path: Path) -> Holder:
    """Return the content of a lock file. Raises Damaged, or Missing if the file does not exist."""
    said = run_files.read_json(path)
    try:
        holder = Holder(**said)
        texts = (holder.up, holder.host, holder.boot, holder.run, holder.state, holder.inode)
        renewed = float(holder.renewed)
        whole = all(
            isinstance(text, str) and text.isprintable() for text in texts
        ) and math.isfinite(renewed)
        whole = (
            whole
            and type(holder.pid) is int
            and path == path_of(path.parent, holder.up)
            and _is_name(holder.run)
        )
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise run_files.damaged(path, "found other fields")
    return replace(holder, renewed=renewed)


def inode_of(about: os.stat_result) -> str:
    """Return a text that identifies the file on this kernel: its device and inode numbers."""
    return f"{about.st_dev}:{about.st_ino}"


def is_same(path: Path, holder: Holder) -> bool:
    """Whether this kernel sees the very file that the holder has locked."""
    try:
        return holder.boot == boot_id() and holder.inode in ("", inode_of(path.lstat()))
    except OSError:
        return False


def is_held(path: Path) -> bool | None:
    """Whether a process holds the flock of this file, as far as this kernel knows. None if the
    kernel cannot answer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return is_locked(descriptor)
    finally:
        os.close(descriptor)


def is_locked(descriptor: int) -> bool | None:
    """Whether a process holds the flock of an open file, also if the file has been removed. None if
    the kernel cannot answer."""
    try:
        # a shared lock, so that two processes that ask never take each other for an `up`
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _is_name(run: str) -> bool:
    """Whether `run` is empty or can be the name of a folder."""
    return (
        not {"/", "\0"} & {*run}
        and run not in (".", "..")
        and len(os.fsencode(run)) <= LONGEST_NAME
    )
