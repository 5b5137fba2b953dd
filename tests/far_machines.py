"""Machines that only ssh reaches, as benchmarks make them; and what runs leave behind there."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.far_machines import Far, far_machines, program

__all__ = ["Far", "far_machines", "folders", "program"]


def folders() -> list[str]:
    """What runs that have ended have left in the temporary folder for good: other tests' runs are killed beside this
    one, and what they leave goes when the next run begins."""
    deadline = time.monotonic() + 10
    while True:
        found = Path(tempfile.gettempdir()).glob("convoy-sockets-*")
        left = [str(path) for path in found if not Path("/proc", path.name.split("-")[2]).exists()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
