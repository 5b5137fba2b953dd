"""Socket files: the path of a Unix socket, however long it is.

The system takes a path of at most 107 bytes. Batch systems give each job a temporary folder whose
path alone may be longer. A longer path is reached through a descriptor of its folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 107  # bytes: Linux's struct sockaddr_un
FOLDERS = "/proc/self/fd"


@contextmanager
def reachable(path: str) -> Iterator[str]:
    """A path of the same socket file that the system takes, for one call of bind or connect. Raises
    OSError."""
    if len(os.fsencode(path)) <= LONGEST:
        yield path
        return
    if not os.path.isdir(FOLDERS):  # noqa: PTH112  # no folder of a person
        why = (
            f"the path of a socket has more than {LONGEST} bytes, and the system shows no "
            f"{FOLDERS}: set TMPDIR to a folder with a shorter path"
        )
        raise OSError(errno.ENAMETOOLONG, why, path)
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{FOLDERS}/{descriptor}/{name}"
    finally:
        os.close(descriptor)
