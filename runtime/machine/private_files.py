"""Files with secrets, and the files of a run directory. New files can be read by this user only,
and no file is written through a link in its place."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from runtime.machine.owned import NotOurs, open_file

SECRET_BYTES = 16 << 20  # the keys of a process with more than 100 000 peers


def write_new(path: Path, data: bytes) -> None:
    """Write a new file with mode 0600. Raises FileExistsError or another OSError. A file that could
    not be written completely is removed."""
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        try:
            file.write(data)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def replace(path: Path, data: bytes) -> None:
    """Write a file with mode 0600 in place of any file of this name. A reader sees either the old
    or the new content. Raises OSError."""
    half = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    write_new(half, data)
    try:
        half.replace(path)
    except BaseException:
        with suppress(OSError):
            half.unlink()
        raise


def read_secret(path: Path, limit: int = SECRET_BYTES) -> bytes:
    """Return the content of the file, which may be reached through a link. Raises NotOurs, with a
    text for people, if the file belongs to another user or others may read it. Raises OSError."""
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
