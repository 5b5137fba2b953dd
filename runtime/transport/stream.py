"""A connected stream socket on the event loop itself: whole messages in, whole messages out.

A small message is one call of the system at each end; large frames go from and to their memory.
Nothing here waits: bytes that the system does not take at once wait in a `backlog`. `incoming`
makes messages of the bytes that arrive, and says what a message is as bytes.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from runtime.transport.backlog import Backlog
from runtime.transport.incoming import ONE, Incoming
from runtime.transport.ports import BATCH, COPY_BELOW, Frames, OnAnswer, Port

# bytes in the system, if it allows so many: with 208 KB 1 MB arrays take 2.8 times as long
SEND_BUFFER = 1 << 20


def _nothing(*_: object) -> None:
    """Ignore what comes after the end."""


class Stream(Port):
    """A connected socket: whole messages in, whole messages out.

    `on_message(frames)` gets each message, and no frames if the bytes are not a message; `on_end()`
    is called once, after such bytes or when the peer is gone. Neither is called after `close`.
    """

    def __init__(self, connected: socket.socket, message_bytes: int) -> None:
        self.on_message: OnAnswer = _nothing
        self.on_end: Callable[[], object] = _nothing
        connected.setblocking(False)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._socket = connected
        self._incoming = Incoming(connected, message_bytes)
        self.allow = self._incoming.allow
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._backlog = Backlog(connected)
        self._behind = False  # more messages are here than were taken this turn
        self._loop.add_reader(connected, self._readable)

    # -- writing

    def send(self, frames: Frames) -> None:
        sizes = [len(frame) for frame in frames]
        if len(sizes) == 1 and sizes[0] < COPY_BELOW:
            self._send_small(ONE.pack(1, sizes[0]) + frames[0])
            return
        head = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        if sum(sizes) < COPY_BELOW:
            self._send_small(b"".join((head, *frames)))
        else:
            self._backlog.add([head, *frames])

    def _send_small(self, whole: bytes) -> None:
        """A message in one piece: most often the system takes it at once."""
        sent = 0
        if not self._backlog.pieces and self._open:
            try:
                sent = self._socket.send(whole)
            except BlockingIOError:
                pass
            except OSError:  # the reading side sees the end
                return
        if sent < len(whole):
            self._backlog.add([whole[sent:]])

    # -- reading

    def _readable(self) -> None:
        if self._behind:
            return
        try:
            more = self._incoming.fill()
        except BlockingIOError:
            return
        except OSError:
            more = 0
        if not more:
            self._finish()
        elif self._take() == BATCH:
            self._behind = True
            self._loop.call_soon(self._catch_up)

    def _take(self) -> int:
        """Hand over messages that are here, at most BATCH: how many."""
        next_message = self._incoming.next
        for taken in range(BATCH):
            try:
                frames = next_message()
            except ValueError:
                self.on_message([])
                self._finish()
                return taken
            if frames is None:
                return taken
            self.on_message(frames)
            if not self._open:
                return taken
        return BATCH

    def _catch_up(self) -> None:
        """Take messages that the turn before left. Nothing is read before all are taken."""
        self._behind = self._open and self._take() > 0
        if self._behind:
            self._loop.call_soon(self._catch_up)

    # -- the end

    def close(self, *, flush: bool) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._socket)
            self._incoming.close()
            self.on_message = self.on_end = _nothing
        self._backlog.close(flush=flush)

    async def flushed(self) -> None:
        """Wait until everything has left, or can no more."""
        await self._backlog.flushed()

    def _finish(self) -> None:
        """The peer has died or can no longer be understood."""
        on_end = self.on_end
        self.close(flush=False)
        on_end()
