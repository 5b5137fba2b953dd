"""A connected stream socket on the event loop itself: whole messages in, whole messages out.

A message is [number of frames, 4 bytes][size of each, 8 bytes][the frames], numbers little-endian.
Small messages are one call of the system at each end; large frames go from and to their memory.
Nothing here waits for anything: what the system does not take at once waits in a `backlog`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

import numpy as np

from runtime.messages.arrays import MAX_ARRAYS
from runtime.transport.backlog import Backlog
from runtime.transport.ports import BATCH, COPY_BELOW, TURN_BYTES, Frames, OnAnswer, Port

MAX_FRAMES = MAX_ARRAYS + 1
# bytes read at once; what is not taken of them yet, and a small frame, fit in half of it
BUFFER = 4 * COPY_BELOW
# bytes in the system, if it allows so many: with 208 KB 1 MB arrays take 2.8 times as long
SEND_BUFFER = 1 << 20
_COUNT = struct.Struct("<I")
_ONE = struct.Struct("<IQ")


def _nothing(*_: object) -> None:
    """Nobody is to be told."""


class Stream(Port):
    """A connected socket: whole messages in, whole messages out.

    `on_message(frames)` gets each message, and no frames for what is none; `on_end()` is called
    once, when the peer is gone or sent what is no message. Neither is called after `close`.
    """

    def __init__(self, connected: socket.socket, message_bytes: int) -> None:
        self.on_message: OnAnswer = _nothing
        self.on_end: Callable[[], object] = _nothing
        connected.setblocking(False)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._socket = connected
        self.allow(message_bytes)
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._backlog = Backlog(connected)
        self._buffer = memoryview(bytearray(BUFFER))
        self._start = self._end = 0  # of what was read into it and not taken yet
        # of the frames of the present message that are not here yet, last first
        self._sizes: list[int] = []
        self._frames: Frames = []  # its frames that are
        self._large = memoryview(b"")  # its present frame, if that does not go through the buffer
        self._filled = 0  # bytes of that
        self._behind = False  # more messages are here than were taken this turn
        self._loop.add_reader(connected, self._readable)

    def allow(self, message_bytes: int, frames: int = MAX_FRAMES) -> None:
        """A frame may have so many bytes from now on, and a message so many frames."""
        self._message_bytes = message_bytes
        self._most_frames = frames
        self._small = min(COPY_BELOW - 1, message_bytes)  # of a frame that is copied

    # -- writing

    def send(self, frames: Frames) -> None:
        """See Port.send."""
        sizes = [len(frame) for frame in frames]
        if len(sizes) == 1 and sizes[0] < COPY_BELOW:
            self._send_small(_ONE.pack(1, sizes[0]) + frames[0])
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
            more = self._fill()
        except BlockingIOError:
            return
        except OSError:
            more = 0
        if not more:
            self._finish()
        elif self._take() == BATCH:
            self._behind = True
            self._loop.call_soon(self._catch_up)

    def _fill(self) -> int:
        """Read what there is: how many bytes, 0 at the end. BlockingIOError if nothing has come."""
        if self._large:
            return self._fill_large()
        if self._start == self._end:
            self._start = self._end = 0
        elif BUFFER - self._end < COPY_BELOW:
            rest = bytes(self._buffer[self._start : self._end])
            self._start = 0
            self._end = len(rest)
            self._buffer[: len(rest)] = rest
        count = self._socket.recv_into(self._buffer[self._end :])
        self._end += count
        return count

    def _fill_large(self) -> int:
        taken = 0
        while self._filled < len(self._large) and taken < TURN_BYTES:
            try:
                count = self._socket.recv_into(self._large[self._filled :])
            except BlockingIOError:
                if not taken:
                    raise
                break
            if not count:
                break
            self._filled += count
            taken += count
        return taken

    def _take(self) -> int:
        """Hand over messages that are here, at most BATCH: how many."""
        for taken in range(BATCH):
            try:
                frames = self._next()
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
        """In the turn after one that did not take all: nothing is read before all are taken."""
        self._behind = self._open and self._take() > 0
        if self._behind:
            self._loop.call_soon(self._catch_up)

    def _next(self) -> Frames | None:
        """The next message; None if it is not here as a whole. ValueError if this is none."""
        if not self._sizes:
            here = self._end - self._start
            if here >= _ONE.size:
                count, size = _ONE.unpack_from(self._buffer, self._start)
                if count == 1 and size <= self._small and size <= here - _ONE.size:  # most messages
                    start = self._start + _ONE.size
                    self._start = self._start + _ONE.size + size
                    return [bytes(self._buffer[start : self._start])]
            if not self._begin():
                return None
        while self._sizes:
            frame = self._frame(self._sizes[-1])
            if frame is None:
                return None
            self._frames.append(frame)
            self._sizes.pop()
        frames = self._frames
        self._frames = []
        return frames

    def _begin(self) -> bool:
        """Read the sizes of a message; False if they are not here as a whole."""
        here = self._end - self._start
        if here < _COUNT.size:
            return False
        (count,) = _COUNT.unpack_from(self._buffer, self._start)
        if not 0 < count <= self._most_frames:
            raise ValueError(count)
        if here < _COUNT.size + 8 * count:
            return False
        self._sizes = list(
            struct.unpack_from(f"<{count}Q", self._buffer, self._start + _COUNT.size)
        )
        if max(self._sizes) > self._message_bytes:
            raise ValueError(max(self._sizes))
        self._sizes.reverse()
        self._start += _COUNT.size + 8 * count
        return True

    def _frame(self, size: int) -> bytes | memoryview | None:
        """The next frame, of so many bytes; None if it is not here as a whole."""
        here = self._end - self._start
        if size < COPY_BELOW:
            if here < size:
                return None
            self._start += size
            return bytes(self._buffer[self._start - size : self._start])
        if not self._large:
            self._large = np.empty(size, np.uint8).data  # bytearray writes zeros
            self._filled = min(here, size)
            self._large[: self._filled] = self._buffer[self._start : self._start + self._filled]
            self._start += self._filled
        if self._filled < size:
            return None
        frame = self._large
        self._large = memoryview(b"")
        return frame

    # -- the end

    def close(self, *, flush: bool) -> None:
        """See Port.close."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._socket)
            self._buffer = memoryview(b"")
            self.on_message = self.on_end = _nothing
        self._backlog.close(flush=flush)

    async def flushed(self) -> None:
        """Wait until everything has left, or can no more."""
        await self._backlog.flushed()

    def _finish(self) -> None:
        """The peer is gone, or as good as that."""
        on_end = self.on_end
        self.close(flush=False)
        on_end()
