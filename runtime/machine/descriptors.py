"""The number of files and sockets that a process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress

DESCRIPTORS = 1 << 16


def more() -> None:
    """Raise the limit to the number that this user may have, but at most to DESCRIPTORS.
    Connections that strangers keep open must not use up the descriptors for files and peers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, DESCRIPTORS)), hard))
