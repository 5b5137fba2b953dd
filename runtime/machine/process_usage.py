"""The processor time and memory of a process of this machine, as the system reports them. The
process itself is not asked."""

from __future__ import annotations

import os
from pathlib import Path


def usage(pid: int) -> tuple[float, int] | None:
    """Return seconds of processor time and bytes of resident memory. Returns None if the process
    has ended or the system has no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # from the third field on: the process name before it may contain any character
    fields = text.rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
