"""What a socket of a stream did not take at once: it leaves in order, as there is room.

Byte credits bound it (`sockets`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from itertools import islice

from runtime.transport.ports import TURN_BYTES, Frames

PIECES = 64  # of memory handed to the system at once; it takes 1024 at most


class Backlog:
    """Memory that waits for one socket; it must not change meanwhile. Closes the socket in the
    end."""

    def __init__(self, connected: socket.socket) -> None:
        self.pieces: deque[memoryview] = deque()
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._left: asyncio.Future[None] | None = None  # done when nothing waits any more

    def __repr__(self) -> str:
        return f"<{sum(map(len, self.pieces))} bytes wait for room>"

    def add(self, pieces: Frames) -> None:
        """These leave behind what waits already, at once if nothing does; after `close` they go
        nowhere."""
        if not self._open:
            return
        waited = bool(self.pieces)
        self.pieces.extend(memoryview(piece) for piece in pieces)
        if not waited:
            self._left = self._loop.create_future()
            self._loop.add_writer(self._socket, self._write)
            self._write()

    async def flushed(self) -> None:
        """Wait until everything has left, or can no more."""
        if self._left is not None:
            await asyncio.shield(self._left)

    def close(self, *, flush: bool) -> None:
        """Close the socket: now, or with `flush` when all has left. May be called again."""
        self._open = False
        if not flush:
            self.pieces.clear()
        if not self.pieces:
            self._written()

    def _write(self) -> None:
        """Hand over what waits, as far as the system takes it."""
        budget = TURN_BYTES
        try:
            while self.pieces and budget > 0:
                sent = self._socket.sendmsg(list(islice(self.pieces, PIECES)))
                budget -= sent
                while self.pieces and sent >= len(self.pieces[0]):
                    sent -= len(self.pieces.popleft())
                if sent:
                    self.pieces[0] = self.pieces[0][sent:]
        except BlockingIOError:
            pass
        except OSError:  # the reading side sees the end
            self.pieces.clear()
        if not self.pieces:
            self._written()

    def _written(self) -> None:
        """Nothing waits any more."""
        if self._left is not None:
            self._loop.remove_writer(self._socket)
            self._left.set_result(None)
            self._left = None
        if not self._open:
            self._socket.close()
