"""Frames that are too large to travel as one: cut where they are sent, put together where they
arrive.

ZeroMQ receives a frame into memory that the C library makes anew if it is larger than PARTS_FROM,
page by page: 200 MB take 1.6 to 3 times as long so. Parts come into memory that is used again, and
are copied into large pages. Over TCP parts are smaller: ZeroMQ makes memory for a frame that
anybody claims to send, before it is known who that is.
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
TCP_PART = 1 << 20  # what each stranger may claim, see `zmtp.strangers`
SEALED_PART = 256 << 10  # where parts are encrypted: one is sealed while the one before travels
CURVE = "curve://"
TCP = "tcp://"
IPC = "ipc://"
# of a frame: a word that says what the others are and a header stand before the arrays
MAX_NUMBER = MAX_ARRAYS + 1
# number of the frame in its message, its bytes, where the part begins
PLACE = struct.Struct("<IQQ")


def sizes_at(address: str) -> tuple[int, int]:
    """Bytes of the largest frame that travels as a whole to an address, and of the parts of larger
    ones."""
    if address.startswith(CURVE):
        return SEALED_PART, SEALED_PART
    return (TCP_PART, TCP_PART) if address.startswith(TCP) else (PARTS_FROM, PART)


def parted(frames: Frames, above: int = PARTS_FROM, part: int = PART) -> Iterator[Frames]:
    """What a message travels as: the parts of its frames of more than `above` bytes, each behind an
    empty frame and its place; the rest."""
    for number, frame in enumerate(frames):
        if len(frame) > above:
            for start in range(0, len(frame), part):
                yield [b"", PLACE.pack(number, len(frame), start), frame[start : start + part]]
    yield [frame if len(frame) <= above else b"" for frame in frames]


class FrameParts:
    """Puts the large frames of one sender together again: one after the other, so that what it may
    claim memory for is one frame more than what it has sent."""

    def __init__(self, message_bytes: int) -> None:
        self._message_bytes = message_bytes
        # number of a frame -> its memory, bytes that are here
        self._wholes: dict[int, tuple[memoryview, int]] = {}

    def take(self, frames: Frames) -> Frames | None:
        """The message that this ends; None if it is a part. No frames at all if it is neither."""
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
        """Is the frame that began last not here as a whole?"""
        whole, end = next(reversed(self._wholes.values()), (b"", 0))
        return end < len(whole)


class Assembly:
    """Puts the messages of many senders together, each by its identity."""

    def __init__(self, message_bytes: int) -> None:
        self._message_bytes = message_bytes
        self._senders: dict[bytes, FrameParts] = {}

    def take(self, identity: bytes, frames: Frames) -> Frames | None:
        """See FrameParts.take."""
        parts = self._senders.get(identity)
        if parts is None:
            parts = self._senders[identity] = FrameParts(self._message_bytes)
        return parts.take(frames)

    def forget(self, identity: bytes) -> None:
        """A sender has left for good: nothing more of it is put together."""
        self._senders.pop(identity, None)
