"""Secrets as files, and the files of a run directory: new ones belong to this user alone, and none
is written through a link that lies in its place."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from runtime.machine.owned import NotOurs, open_file

SECRET_BYTES = 16 << 20  # the keys of a process with more than 100 000 peers


def write_new(path: Path, data: bytes) -> None:
    """A new file with mode 0600. FileExistsError, OSError; a file that could not be written whole
    is removed."""
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        try:
            file.write(data)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def replace(path: Path, data: bytes) -> None:
    """A file with mode 0600 in place of whatever had this name; a reader sees the old one or the
    new one. OSError."""
    half = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    write_new(half, data)
    try:
        half.replace(path)
    except BaseException:
        with suppress(OSError):
            half.unlink()
        raise


def read_secret(path: Path, limit: int = SECRET_BYTES) -> bytes:
    """The whole file, which may be named by a link. NotOurs, in words, if it is another user's or
    others may read it; OSError."""
    with os.fdopen(open_file(Path(os.path.realpath(path)), os.O_RDONLY), "rb") as file:
        about = os.fstat(file.fileno())
        if (mode := stat.S_IMODE(about.st_mode)) & 0o077:
            raise NotOurs(
                errno.EPERM, (f"others may read it (mode {mode:o}): chmod 600 {path}"), str(path)
            )
        if about.st_size > limit:
            raise OSError(
                errno.EFBIG, (f"found {about.st_size} bytes, expected at most {limit}"), str(path)
            )
        return file.read(limit)
