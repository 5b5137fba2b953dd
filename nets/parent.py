"""A request to the system about the parent of this process. Linux only."""

from __future__ import annotations

import ctypes
import signal
from contextlib import suppress

PR_SET_PDEATHSIG = 1


def go_on_without_parent() -> None:
    """Ask the system to wake this process, if it is stopped, when its parent ends. The process then
    finds its lifeline closed and ends itself. On systems other than Linux, it stays stopped until
    it is woken."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
