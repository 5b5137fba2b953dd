"""A socket that is read by the event loop through a descriptor, a few messages in each turn.

A busy socket never starves the loop: 60 000 ready messages on a zmq.asyncio socket kept a 5 ms
timer waiting for 0.7 s. A wake-up reads one message, and its actor handles it before the socket is
asked for more.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class Watched(ABC):
    """A watched socket. `descriptor` becomes readable when there may be messages, at most once
    until all were read. One turn of the loop reads `batch` messages, or fewer once they have
    `turn_bytes`."""

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
        """Return whether there is a message to read."""

    @abstractmethod
    def _take(self) -> int:
        """Read one message and pass it on. Return its bytes, or -1 without one."""

    def close(self) -> None:
        """Stop watching. May be called again."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._descriptor)

    def look_later(self) -> None:
        """Check in the loop's next turn whether there are messages. Further calls before that turn
        do nothing."""
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
