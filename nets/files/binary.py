"""Whole files, read with a size limit, and written so that a crash leaves the old file or the new
one."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from nets.errors import NetError
from nets.reasons import reason
from nets.regular import read_bytes

M = TypeVar("M", bound=Message)
LIMIT = 2**31 - 1  # protobuf's limit for one message
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_message(path: Path, message: type[M], what: str, kind: type[NetError] = NetError) -> M:
    """Return the binary `message` in `path`. Raises an error of `kind` if the file is missing, too
    large or damaged. `what` is its name in the error text."""
    try:
        data = read_bytes(path, LIMIT)
    except FileNotFoundError:
        raise kind(f"{path}: no such file") from None
    except OSError as error:
        raise kind(f"{path}: cannot be read: {reason(error)}") from None
    try:
        return message.FromString(data)
    except DecodeError:
        raise kind(f"{path}: damaged or not {what} ({len(data)} bytes)") from None


def write_message(path: Path, message: Message) -> None:
    """Write a binary message in one step. Raises NetError above protobuf's 2 GiB, and OSError."""
    try:
        data = message.SerializeToString(deterministic=True)
    except (EncodeError, ValueError):
        raise NetError(
            f"{path}: too large, expected at most {LIMIT} bytes: use HDF5 instead"
        ) from None
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the path of a temporary file in the same folder, whose contents will become `path`. At
    the end of the `with` block, the file is flushed to the disk and renamed, and the folder is
    flushed.

    Raises OSError, which names `path`, for a full disk or a missing folder; the temporary file is
    then removed. A temporary file that a killed process has left is removed first. The writer locks
    its file, so the files of living writers stay. The mode is that of any new file (umask): a
    private folder keeps its files private.
    """
    sweep_temporaries(path.parent, path.name)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    try:
        handle = os.open(temporary, NEW, 0o666)
    except OSError as error:
        error.filename = str(path)
        raise
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
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
    finally:
        os.close(handle)
    _sync_directory(path.parent)


def sweep_temporaries(directory: Path, name: str) -> None:
    """Remove the temporary files that killed writers of `name` (which may be a pattern) have left
    in a folder. The files of living writers stay, and so do files that this user may not remove."""
    for left in directory.glob(f".{name}.*.tmp"):
        with suppress(OSError), open(left, "rb", opener=_at_once) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()


def _at_once(path: str, flags: int) -> int:
    """Open a file, but no link, and do not wait for the writer of a named pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _sync_directory(directory: Path) -> None:
    """Make a rename durable, if the system can open a folder."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except PermissionError:  # Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
