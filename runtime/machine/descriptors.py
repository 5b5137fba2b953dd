"""How many files and sockets a process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress

DESCRIPTORS = 1 << 16


def more() -> None:
    """As many as this user may have: connections that strangers hold open must not take those of
    files and peers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, DESCRIPTORS)), hard))
