"""Ctrl-C and SIGTERM before a run handles them itself: the command ends with a message instead of a
traceback.

A run has its own handlers (`runs/signals.py`). `python -m runtime` imports this module first, so it
imports only modules that load quickly.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from runtime.heard_signals import heard

ENDING = (signal.SIGINT, signal.SIGTERM)
# time to release files and processes; some libraries swallow an exception raised in their imports
LET_GO_SECONDS = 3.0


class Interrupted(BaseException):
    """A signal ended the command. It does not derive from KeyboardInterrupt, which libraries catch,
    each in its own way."""


class Interrupts:
    """Handles SIGINT and SIGTERM. `number` is the signal that ended the command, or 0."""

    def __init__(self) -> None:
        self.number = 0

    def hear(self) -> None:
        """Install the handlers. The first signal raises Interrupted wherever the command is; the
        second ends the process."""
        for number in heard(*ENDING):
            signal.signal(number, self._heard)

    def over(self) -> None:
        """Ignore signals from now on, since the command has ended."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._end()
        # blocked until the message is written, since a second signal ends the process
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        self.number = number
        # not print(), since the signal may have interrupted a print()
        stderr = sys.__stderr__.fileno() if sys.__stderr__ else 2
        with suppress(OSError):  # stderr has no reader any more
            os.write(stderr, f"ended by {signal.Signals(number).name}\n".encode())
        # Python prints a traceback wherever it drops the exception
        sys.unraisablehook = lambda _: None
        signal.signal(signal.SIGALRM, self._end)
        signal.setitimer(signal.ITIMER_REAL, LET_GO_SECONDS)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        raise Interrupted

    def _end(self, *_: object) -> None:
        os._exit(128 + self.number)
