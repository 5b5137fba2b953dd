"""What a process of this machine uses, as the system tells it. Nobody is asked for it."""

from __future__ import annotations

import os
from pathlib import Path


def usage(pid: int) -> tuple[float, int] | None:
    """Seconds of processor time, and bytes of resident memory; None if it is gone, or there is no
    /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # from the third on: the name before may hold anything
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
