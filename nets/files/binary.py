"""Whole files in and out: read with a limit, written so that a crash leaves the old file or the new
one."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from nets.errors import NetError
from nets.reasons import reason
from nets.regular import read_bytes

M = TypeVar("M", bound=Message)
LIMIT = 2**31 - 1  # protobuf's own limit of a message


def read_message(path: Path, message: type[M], what: str, kind: type[NetError] = NetError) -> M:
    """Return the binary `message` in `path`; an error of `kind` when it is missing, too large or
    damaged."""
    try:
        data = read_bytes(path, LIMIT)
    except FileNotFoundError:
        raise kind(f"{path}: no such file") from None
    except OSError as error:
        raise kind(f"{path.name}: cannot be read: {reason(error)}") from None
    try:
        return message.FromString(data)
    except DecodeError:
        raise kind(f"{path.name}: damaged or not {what} ({len(data)} bytes)") from None


def write_message(path: Path, message: Message) -> None:
    """Write a binary message at once; NetError above protobuf's 2 GiB. OSError passes through."""
    try:
        data = message.SerializeToString(deterministic=True)
    except (EncodeError, ValueError):
        raise NetError(
            f"{path.name}: too large, expected at most {LIMIT} bytes: use HDF5 instead"
        ) from None
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write what shall stand at `path`: a file beside it. What was written there is then
    flushed to the disk and renamed, and the directory is flushed.

    OSError passes through (full disk, no such directory); the temporary file is then gone. One that
    a killed process has left is removed first: it is locked as long as its writer lives.
    """
    sweep_temporaries(path.parent, path.name)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
        written = os.open(temporary, os.O_RDWR)
        try:
            os.fsync(written)
        finally:
            os.close(written)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    _sync_directory(path.parent)


def sweep_temporaries(directory: Path, name: str) -> None:
    """Remove the temporary files that writers of `name` (or of a pattern) have left in a directory
    when they were killed; those of living writers, and what may not be removed, stay."""
    for left in directory.glob(f".{name}.*.tmp"):
        with suppress(OSError), open(left, "rb", opener=_at_once) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()


def _at_once(path: str, flags: int) -> int:
    """Open no link, and do not wait for the writer of a named pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the system can open a directory."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except PermissionError:  # Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
