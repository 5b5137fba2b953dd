"""Ctrl-C and SIGTERM while no run is there to hear them: the command ends in words, not in a
traceback.

A run hears them itself (`runs/signals.py`). This is the first thing that `python -m runtime`
imports, so it imports nothing that takes time.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)
# for files and processes; some libraries swallow an exception that comes out of their imports
LET_GO_SECONDS = 3.0


class Interrupted(BaseException):
    """A signal ended the command. It is no KeyboardInterrupt: libraries catch that, each in its own
    way."""


class Interrupts:
    """`number`: the signal that ended the command, 0 if none did."""

    def __init__(self) -> None:
        self.number = 0

    def hear(self) -> None:
        """From now on the first signal raises Interrupted wherever the command is; the second ends
        the process."""
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._heard)

    def over(self) -> None:
        """The command has ended; signals change nothing any more."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            self._end()
        # a second one ends the process, but not before this is said
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        self.number = number
        # not print: it may be what the signal has interrupted
        stderr = sys.__stderr__.fileno() if sys.__stderr__ else 2
        with suppress(OSError):  # nobody reads it any more
            os.write(stderr, f"ended by {signal.Signals(number).name}\n".encode())
        # where Python drops the exception it prints a traceback
        sys.unraisablehook = lambda _: None
        signal.signal(signal.SIGALRM, self._end)
        signal.setitimer(signal.ITIMER_REAL, LET_GO_SECONDS)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        raise Interrupted

    def _end(self, *_: object) -> None:
        os._exit(128 + self.number)
