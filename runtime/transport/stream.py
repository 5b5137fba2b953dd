"""A connected stream socket, read and written by the event loop itself: whole messages in, whole
messages out.

A small message is one system call at each end. Large frames travel from and to their own memory.
Nothing here waits: bytes that the system does not take at once wait in a `backlog`. `incoming`
defines how a message is laid out as bytes, and reads messages from the bytes that arrive.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from runtime.transport.backlog import Backlog
from runtime.transport.incoming import ONE, Incoming
from runtime.transport.ports import BATCH, COPY_BELOW, Frames, OnAnswer, Port

# bytes in the system, if it allows that many; with 208 KB, 1 MB arrays take 2.8 times as long
SEND_BUFFER = 1 << 20


def _nothing(*_: object) -> None:
    """Ignore messages and events after the end."""


class Stream(Port):
    """A connected socket that sends and receives whole messages. Calls `on_message(frames)` for
    each message, and with no frames if the bytes are not a message. Calls `on_end()` once, after
    such bytes or when the peer is gone. Calls neither after `close`."""

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
        self._behind = False  # more messages have arrived than were taken in this turn of the loop
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
        """Send a message in one piece. Most often the system takes it at once."""
        sent = 0
        if not self._backlog.pieces and self._open:
            try:
                sent = self._socket.send(whole)
            except BlockingIOError:
                pass
            except OSError:  # the reading side notices the end of the connection
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
        """Call `on_message` for messages that have arrived, at most BATCH. Return their number."""
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
        """Take the messages that the last turn left. Nothing is read before all are taken."""
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
        """Wait until everything has been sent, or until nothing more can be sent."""
        await self._backlog.flushed()

    def _finish(self) -> None:
        """End the connection: the peer has died, or its bytes are not messages."""
        on_end = self.on_end
        self.close(flush=False)
        on_end()
