"""The one door to files that a person names: only a regular file is opened (`nets.regular` is the same for nets).

open() of a named pipe waits until somebody writes into it, a device has no end, and a name may be none at all.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole file. OSError, in words, if it is no regular file or has more than `limit` bytes; then nothing
    was read."""
    try:
        found = path.stat()
    except ValueError:  # a NUL, or what cannot be encoded
        raise OSError(errno.EINVAL, "not a file name") from None
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a named pipe or a device, expected a file")
    if found.st_size > limit:
        raise OSError(errno.EFBIG, f"found {found.st_size} bytes, expected at most {limit}")
    if not found.st_size:  # what /proc shows has a size of 0, and may wait when it is read
        return b""
    with path.open("rb") as file:
        return file.read(found.st_size)
