"""What a process asks of the system about its parent. Linux only."""

from __future__ import annotations

import ctypes
import signal
from contextlib import suppress

PR_SET_PDEATHSIG = 1


def go_on_without_parent() -> None:
    """Let the system wake this process, if it is stopped, when its parent ends: it then finds its
    lifeline closed and ends itself. Linux only; elsewhere it stays until it is woken."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
