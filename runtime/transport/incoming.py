"""The messages of a byte stream: bytes come in as the system has them, whole messages go out.

A message is [number of frames, 4 bytes][size of each, 8 bytes][the frames], numbers little-endian.
Small frames are copied out of one buffer; a large frame is read into memory of its own.
"""

from __future__ import annotations

import socket
import struct

import numpy as np

from runtime.messages.arrays import MAX_ARRAYS
from runtime.transport.ports import COPY_BELOW, TURN_BYTES, Frames

MAX_FRAMES = MAX_ARRAYS + 1
# bytes read at once; what is not taken of them yet, and a small frame, fit in half of it
BUFFER = 4 * COPY_BELOW
_COUNT = struct.Struct("<I")
ONE = struct.Struct("<IQ")


class Incoming:
    """The messages that a connected socket has sent: `fill` reads bytes, `next` hands out whole
    messages."""

    def __init__(self, connected: socket.socket, message_bytes: int) -> None:
        self._socket = connected
        self.allow(message_bytes)
        self._buffer = memoryview(bytearray(BUFFER))
        self._start = self._end = 0  # of what was read into it and not taken yet
        # of the frames of the present message that are not here yet, last first
        self._sizes: list[int] = []
        self._frames: Frames = []  # its frames that are
        self._large = memoryview(b"")  # its present frame, if that does not go through the buffer
        self._filled = 0  # bytes of that

    def allow(self, message_bytes: int, frames: int = MAX_FRAMES) -> None:
        """A frame may have so many bytes from now on, and a message so many frames."""
        self._message_bytes = message_bytes
        self._most_frames = frames
        self._small = min(COPY_BELOW - 1, message_bytes)  # of a frame that is copied

    def fill(self) -> int:
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

    def next(self) -> Frames | None:
        """The next message; None if it is not here as a whole. ValueError if this is none."""
        if not self._sizes:
            here = self._end - self._start
            if here >= ONE.size:
                count, size = ONE.unpack_from(self._buffer, self._start)
                if count == 1 and size <= self._small and size <= here - ONE.size:  # most messages
                    start = self._start + ONE.size
                    self._start = self._start + ONE.size + size
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

    def close(self) -> None:
        """Let go of the buffer."""
        self._buffer = memoryview(b"")
