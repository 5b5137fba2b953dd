"""A socket whose messages the event loop reads from its own watch of a descriptor, a few in each
turn.

A busy socket never starves the loop: 60 000 ready messages on a zmq.asyncio socket left a 5 ms
timer no turn for 0.7 s. A wake-up reads one message, which its actor then handles before anybody
asks whether there are more.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class Watched(ABC):
    """`descriptor` says that there may be messages, at most once until all were read. Of these
    `batch` are read in a turn of the loop, or fewer that have `turn_bytes`."""

    def __init__(self, descriptor: int, batch: int, turn_bytes: int) -> None:
        self._descriptor = descriptor
        self._batch = batch
        self._turn_bytes = turn_bytes
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._closed = False
        self._loop.add_reader(descriptor, self._woken)
        self.look_later()

    @abstractmethod
    def _has_messages(self) -> bool:
        """Is there a message to be read?"""

    @abstractmethod
    def _take(self) -> int:
        """Read one message and hand it on: its bytes; -1 if there is none."""

    def close(self) -> None:
        """Watch it no more. May be called again."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._descriptor)

    def look_later(self) -> None:
        """See in the loop's next turn whether there are messages: once, however often it is called
        until then."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._look)

    def _woken(self) -> None:
        if not self._scheduled:
            self._read(1)

    def _look(self) -> None:
        self._scheduled = False
        if not self._closed and self._has_messages():
            self._read(self._batch)

    def _read(self, most: int) -> None:
        size = 0
        for _ in range(most):
            if self._closed:
                return
            if size >= self._turn_bytes:
                break
            taken = self._take()
            if taken < 0:
                return
            size += taken
        self.look_later()
