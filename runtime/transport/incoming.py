"""The messages in a byte stream: reads bytes as they arrive, and returns whole messages.

A message is [number of frames, 4 bytes][size of each frame, 8 bytes][the frames]. Numbers are
little-endian. Small frames are copied out of one buffer; a large frame is read into its own memory.
"""

from __future__ import annotations

import socket
import struct

import numpy as np

from runtime.messages.arrays import MAX_ARRAYS
from runtime.transport.ports import COPY_BELOW, TURN_BYTES, Frames

MAX_FRAMES = MAX_ARRAYS + 1
# bytes read at once; the bytes not yet taken and a small frame fit in half of it
BUFFER = 4 * COPY_BELOW
_COUNT = struct.Struct("<I")
ONE = struct.Struct("<IQ")


class Incoming:
    """The messages that a connected socket receives: `fill` reads bytes, `next` returns whole
    messages."""

    def __init__(self, connected: socket.socket, message_bytes: int) -> None:
        self._socket = connected
        self.allow(message_bytes)
        self._buffer = memoryview(bytearray(BUFFER))
        self._start = self._end = 0  # range of the buffer that was read and not taken yet
        # sizes of the present message's frames that have not arrived yet, last first
        self._sizes: list[int] = []
        self._frames: Frames = []  # the frames of it that have arrived
        # the frame that arrives now, if it is too large for the buffer
        self._large = memoryview(b"")
        self._filled = 0  # bytes of that frame that have arrived

    def allow(self, message_bytes: int, frames: int = MAX_FRAMES) -> None:
        """Set the limits from now on: the bytes of a frame, and the frames of a message."""
        self._message_bytes = message_bytes
        self._most_frames = frames
        self._small = min(COPY_BELOW - 1, message_bytes)  # largest frame that is copied

    def fill(self) -> int:
        """Read the bytes that have arrived, and return their number, 0 at the end of the stream.
        Raises BlockingIOError if there are none."""
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
        """Return the next message, or None if it has not arrived completely. Raises ValueError if
        the bytes are not a message."""
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
        """Read the frame sizes of a message. Return False if they have not arrived completely."""
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
        """Return the next frame, which has `size` bytes, or None if it has not arrived
        completely."""
        here = self._end - self._start
        if size < COPY_BELOW:
            if here < size:
                return None
            self._start += size
            return bytes(self._buffer[self._start - size : self._start])
        if not self._large:
            # unlike bytearray, np.empty does not write zeros
            self._large = np.empty(size, np.uint8).data
            self._filled = min(here, size)
            self._large[: self._filled] = self._buffer[self._start : self._start + self._filled]
            self._start += self._filled
        if self._filled < size:
            return None
        frame = self._large
        self._large = memoryview(b"")
        return frame

    def close(self) -> None:
        """Release the buffer."""
        self._buffer = memoryview(b"")
