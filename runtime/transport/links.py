"""The accounts of two processes over sockets: what one may still send, what the other owes it for what it has read.

An answer on a port is a list of numbers: credits, then offsets of the sender's arrays that nobody sees any more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from runtime.messages.credits import CreditGate, GrantBook, cost_of
from runtime.transport.ports import Frames, Port

_NUMBER = struct.Struct("!Q")


def granted(numbers: Iterable[int]) -> bytes:
    """The frame of an answer."""
    return b"".join(map(_NUMBER.pack, numbers))


class PeerLink:
    """To one peer on one lane: a port and its credits."""

    def __init__(self, limit: int, connect: Callable[[Callable[[Frames], None]], Port]) -> None:
        self.gate = CreditGate(limit)
        self.lost = False  # the connection broke
        self.on_returned: Callable[[list[int]], None] = lambda offsets: None
        self.port = connect(self._granted)

    def close(self, why: str, *, flush: bool = False) -> None:
        """Fail who waits for credits, and let go of the port."""
        self.gate.close(why)
        self.port.close(flush=flush)

    def _granted(self, frames: list[Any]) -> None:
        if len(frames) == 1 and frames[0] and not len(frames[0]) % _NUMBER.size:
            (granted,), *offsets = _NUMBER.iter_unpack(frames[0])
            self.on_returned([offset for (offset,) in offsets])  # first: who gets credits may need the memory
            self.gate.grant(granted)


class Source:
    """From one peer on one lane: what it is owed."""

    def __init__(self, peer: str, pid: int, book: GrantBook, grant: Callable[[int], None]) -> None:
        self.peer, self.pid = peer, pid
        self._book, self._grant = book, grant

    def release(self, size: int) -> None:
        """A message of `size` bytes is done with; the peer hears of it when it is worth a message."""
        due = self._book.release(cost_of(size))
        if due:
            self._grant(due)
