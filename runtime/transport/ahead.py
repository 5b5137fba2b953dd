"""Messages sent ahead of their arrays, which lie in shared memory and are still being written: what is said of them.

    ANNOUNCED number, header   the receiver decodes the message, maps its arrays, and keeps it
    COMPLETE number            the arrays are written: its actor gets the message
    WITHDRAWN number           they never will be

What is left to do once the arrays are ready is a word and a call. A message that sets out only then finds no line of
its way in any cache, and a core asleep at its end: whoever wrote 200 MB has driven everything out. They reach their
reader after 0.7 ms so, and after 0.1 if they were announced. What never lives here: sockets, credits.
"""

from __future__ import annotations

import asyncio
import struct
from typing import NamedTuple

from runtime.transport.ports import Frames

_WORD = struct.Struct("<BBQ")
_MARK = 0xC1  # begins no header: it is the one byte that msgpack never uses
_MARKED = bytes((_MARK,))
ANNOUNCED, COMPLETE, WITHDRAWN = 1, 2, 3
# After an announcement the loop looks for the word that is to follow, again and again, for so long: a core that went to
# sleep takes 40 to 90 us to wake up, more than all the rest.
AWAKE_SECONDS = 0.002


class Word(NamedTuple):
    """What is said of announcement `number`."""

    what: int
    number: int


def word(what: int, number: int) -> bytes:
    """A word as a frame."""
    return _WORD.pack(_MARK, what, number)


def is_word(frames: Frames) -> bool:
    """Is this said of an announcement?"""
    return bool(frames) and frames[0][:1] == _MARKED


def read(frames: Frames) -> Word | None:
    """The word in the first frame; None if there is none such, or not with so many frames."""
    if len(frames[0]) != _WORD.size:
        return None
    found = Word(*_WORD.unpack(frames[0])[1:])
    return found if found.what in ((COMPLETE, WITHDRAWN) if len(frames) == 1 else (ANNOUNCED,)) else None


class Lookout:
    """Keeps the event loop awake for a moment while something was announced that did not come yet."""

    def __init__(self) -> None:
        self._open = 0  # announcements
        self._until = 0.0  # loop time
        self._looking = False

    def announced(self) -> None:
        """Something is about to come."""
        loop = asyncio.get_running_loop()
        self._open += 1
        self._until = loop.time() + AWAKE_SECONDS
        if not self._looking:
            self._look(loop)

    def settled(self) -> None:
        """It came, or never will."""
        self._open -= 1

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = self._open > 0 and loop.time() < self._until
        if self._looking:
            loop.call_soon(self._look, loop)  # the loop's turns look at its sockets without waiting
