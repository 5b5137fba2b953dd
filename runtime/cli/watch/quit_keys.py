"""The keys that end a live view: `q` on a terminal, or Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.heard_signals import heard

ENDING = b"qQ\x03\x04"


@contextmanager
def pressed() -> Iterator[asyncio.Event]:
    """An event that is set when the user presses such a key. Typed keys are not shown meanwhile.
    The terminal's settings are restored at the end."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    interrupted = signal.getsignal(signal.SIGINT)
    for number in heard(signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    try:
        with _keyboard(ended):
            yield ended
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, interrupted)


@contextmanager
def _keyboard(ended: asyncio.Event) -> Iterator[None]:
    try:
        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
    except (OSError, ValueError, termios.error, AttributeError):
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        typed = os.read(keyboard, 64)
        if not typed or any(key in ENDING for key in typed):
            loop.remove_reader(keyboard)
            ended.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, read)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
