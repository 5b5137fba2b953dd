"""The number of files and sockets that a process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress

DESCRIPTORS = 1 << 16
# the most that `up` had open in runs of 2, 5 and 13 processes on one host: 36, 54 and 102
FOR_UP = 24
FOR_EACH_PROCESS = 6


def more() -> None:
    """Raise the limit to the number that this user may have, but at most to DESCRIPTORS.
    Connections that strangers keep open must not use up the descriptors for files and peers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, DESCRIPTORS)), hard))


def lacking(processes: int) -> str:
    """Return a line if `up` may not open as many files as it needs to start so many processes, ""
    if it may."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    needed = FOR_UP + FOR_EACH_PROCESS * processes
    if most in (resource.RLIM_INFINITY, -1) or most >= needed:
        return ""
    return (
        f"open files: `up` needs {needed} for {processes} processes, and this user may have "
        f"{most}; raise it with `ulimit -n`"
    )
