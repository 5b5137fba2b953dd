"""The backlog of a stream socket: memory that the socket did not take at once. It leaves in order,
as the socket has room.

Byte credits bound its size (`sockets`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from itertools import islice

from runtime.transport.ports import TURN_BYTES, Frames

PIECES = 64  # pieces of memory per system call; the system takes 1024 at most


class Backlog:
    """Memory that waits to be sent on one socket. It must not change while it waits. Closes the
    socket at the end."""

    def __init__(self, connected: socket.socket) -> None:
        self.pieces: deque[memoryview] = deque()
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._left: asyncio.Future[None] | None = None  # done when nothing waits any more

    def __repr__(self) -> str:
        return f"<{sum(map(len, self.pieces))} bytes wait for room>"

    def add(self, pieces: Frames) -> None:
        """Send these pieces after those that wait already, at once if none wait. After `close` they
        are dropped."""
        if not self._open:
            return
        waited = bool(self.pieces)
        self.pieces.extend(memoryview(piece) for piece in pieces)
        if not waited:
            self._left = self._loop.create_future()
            self._loop.add_writer(self._socket, self._write)
            self._write()

    async def flushed(self) -> None:
        """Wait until everything has been sent, or until nothing more can be sent."""
        if self._left is not None:
            await asyncio.shield(self._left)

    def close(self, *, flush: bool) -> None:
        """Close the socket, now or with `flush` after all pieces were sent. May be called again."""
        self._open = False
        if not flush:
            self.pieces.clear()
        if not self.pieces:
            self._written()

    def _write(self) -> None:
        """Give waiting pieces to the system, as far as it takes them."""
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
        except OSError:  # the reading side notices the end of the connection
            self.pieces.clear()
        if not self.pieces:
            self._written()

    def _written(self) -> None:
        """End the waiting: all pieces have left."""
        if self._left is not None:
            self._loop.remove_writer(self._socket)
            self._left.set_result(None)
            self._left = None
        if not self._open:
            self._socket.close()
