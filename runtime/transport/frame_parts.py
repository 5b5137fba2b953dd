"""Frames that are too large to travel in one piece: the sender cuts them into parts, the receiver
joins the parts.

ZeroMQ receives each frame into memory of the C library. For a frame larger than PARTS_FROM the
library allocates this memory anew, page by page, so 200 MB take 1.6 to 3 times as long. Parts
arrive in memory that is reused, and are copied into large pages. Over TCP parts are smaller,
because ZeroMQ allocates memory for a frame of any announced size before the sender has proven its
identity.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from runtime.memory.freed import LARGEST_PIECE
from runtime.messages.arrays import MAX_ARRAYS
from runtime.transport.ports import Frames

PARTS_FROM = LARGEST_PIECE  # bytes
PART = 4 << 20
# the most that a peer may announce before it has proven its identity, see `zmtp.strangers`
TCP_PART = 1 << 20
SEALED_PART = 256 << 10  # for encrypted links: one part is encrypted while the one before travels
CURVE = "curve://"
TCP = "tcp://"
IPC = "ipc://"
# largest number of a frame in its message: before the arrays come a frame with the kind of the
# others, and a header
MAX_NUMBER = MAX_ARRAYS + 1
# number of the frame in its message, bytes of the frame, offset of the part
PLACE = struct.Struct("<IQQ")


def sizes_at(address: str) -> tuple[int, int]:
    """Return two sizes for an address: the bytes of the largest frame that travels in one piece,
    and the bytes of a part of a larger frame."""
    if address.startswith(CURVE):
        return SEALED_PART, SEALED_PART
    return (TCP_PART, TCP_PART) if address.startswith(TCP) else (PARTS_FROM, PART)


def parted(frames: Frames, above: int = PARTS_FROM, part: int = PART) -> Iterator[Frames]:
    """Yield the messages in which a message travels.

    First come the parts of each frame of more than `above` bytes, each after an empty frame and its
    PLACE. The last message has the remaining frames, with empty frames in place of the parted ones.
    """
    for number, frame in enumerate(frames):
        if len(frame) > above:
            for start in range(0, len(frame), part):
                yield [b"", PLACE.pack(number, len(frame), start), frame[start : start + part]]
    yield [frame if len(frame) <= above else b"" for frame in frames]


class FrameParts:
    """Joins the parts of one sender's large frames.

    Only one frame may be unfinished at a time. So a sender can claim memory for at most one frame
    more than it has sent.
    """

    def __init__(self, message_bytes: int) -> None:
        self._message_bytes = message_bytes
        # number of a frame -> its memory, and the bytes of it that have arrived
        self._wholes: dict[int, tuple[memoryview, int]] = {}

    def take(self, frames: Frames) -> Frames | None:
        """Take a part, or the end of a message.

        Returns the message if it is complete, and None after a part. Returns no frames if they are
        neither.
        """
        if len(frames) == 3 and not len(frames[0]) and len(frames[1]) == PLACE.size:
            number, size, start = PLACE.unpack(frames[1])
            end = start + len(frames[2])
            whole, here = self._wholes.get(number) or (memoryview(b""), 0)
            fits = (
                start < end <= size <= self._message_bytes
                and start == here
                and len(whole) in (0, size)
            )
            if not fits or (not whole and (number > MAX_NUMBER or self._is_unfinished)):
                self._wholes.clear()
                return []
            whole = whole or np.empty(size, np.uint8).data
            whole[start:end] = frames[2]
            self._wholes[number] = whole, end
            return None
        if self._wholes:
            wholes = self._wholes
            unfinished = self._is_unfinished
            self._wholes = {}
            if unfinished or max(wholes) >= len(frames):
                return []
            frames = [
                wholes[number][0] if number in wholes else frame
                for number, frame in enumerate(frames)
            ]
        return frames

    @property
    def _is_unfinished(self) -> bool:
        """Whether the frame that began last is incomplete."""
        whole, end = next(reversed(self._wholes.values()), (b"", 0))
        return end < len(whole)


class Assembly:
    """Joins the messages of many senders, each known by its identity."""

    def __init__(self, message_bytes: int) -> None:
        self._message_bytes = message_bytes
        self._senders: dict[bytes, FrameParts] = {}

    def take(self, identity: bytes, frames: Frames) -> Frames | None:
        """Take frames of the sender `identity`; see FrameParts.take."""
        parts = self._senders.get(identity)
        if parts is None:
            parts = self._senders[identity] = FrameParts(self._message_bytes)
        return parts.take(frames)

    def forget(self, identity: bytes) -> None:
        """Drop the unfinished frames of a sender that has left for good."""
        self._senders.pop(identity, None)
