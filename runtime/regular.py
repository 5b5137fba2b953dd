"""The opening of files that a user names: only regular files are opened.

`nets.regular` does the same for nets. open() of a named pipe waits until a process writes into it,
a device has no end, and a name may be impossible.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def opened(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError, with the reason in words, if it is not a regular
    file."""
    try:
        _check(path.stat())  # before opening, because opening a device may have an effect
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():
            raise OSError(errno.EINVAL, "it is a link to nothing, expected a file") from None
        raise
    except ValueError:  # a NUL character, or a character that cannot be encoded
        raise OSError(errno.EINVAL, "not a file name") from None
    try:
        _check(os.fstat(descriptor))  # another file may have taken the name meanwhile
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the bytes of a whole file. Raises OSError, with the reason in words and before
    reading, if it is not a regular file or has more than `limit` bytes."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise OSError(errno.EFBIG, f"found {size} bytes, expected at most {limit}")
        return file.read(size)  # what /proc shows has a size of 0, and may wait when it is read


def decoded(data: bytes, errors: str = "strict") -> str:
    """Return the text of a file in UTF-8, without the byte order mark that editors of Windows put
    before it. Raises UnicodeDecodeError."""
    return data.decode("utf-8", errors).removeprefix("\ufeff")


def is_file(path: Path) -> bool:
    """Whether the path is a regular file. An impossible file name is not."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether the path is a folder. An impossible name is not, nor is a folder that this user may
    not look at."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """Whether a file or folder has this name. True for a name that this user may not look at, or
    that no file can have: opening it gives the reason."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


def size_now(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if the file cannot be examined: another process may
    not have made it yet."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _check(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, expected a file")
