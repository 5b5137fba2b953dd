"""The accounts of two processes over sockets: what one may still send, what the other owes it for
what it has read.

An answer on a port is a list of numbers: credits, then offsets of the sender's arrays that nobody
sees any more.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any

from runtime.messages.credits import CreditGate, cost_of
from runtime.messages.grants import GrantBook
from runtime.messages.message import Lane
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
            # first: who gets credits may need the memory
            self.on_returned([offset for (offset,) in offsets])
            self.gate.grant(granted)


class Source:
    """From one peer on one lane: what it is owed."""

    def __init__(self, peer: str, pid: int, book: GrantBook, grant: Callable[[int], None]) -> None:
        self.peer = peer
        self.pid = pid
        self._book = book
        self._grant = grant

    def release(self, size: int) -> None:
        """A message of `size` bytes is done with; the peer hears of it when it is worth a
        message."""
        due = self._book.release(cost_of(size))
        if due:
            self._grant(due)


class Sources(dict[tuple[Lane, bytes], Source]):
    """What everybody who sends is owed, by lane and identity; one who is new is noted as it is
    looked up.

    `answer(lane, identity, frames)` sends back the way messages came; False if nobody is there any
    more.
    """

    def __init__(
        self, credit_of: Callable[[Lane], int], answer: Callable[[Lane, bytes, Frames], bool]
    ) -> None:
        super().__init__()
        self.read_in_place: dict[str, bytes] = {}  # peers whose arrays are, and their identities
        # offsets of their arrays that nobody sees any more
        self.take_due: Callable[[str], list[int]] = lambda peer: []
        self._credit_of = credit_of
        self._answer = answer

    def __missing__(self, key: tuple[Lane, bytes]) -> Source:
        lane, identity = key
        peer, _, life = identity.decode(errors="replace").rpartition("/")
        pid = life.rpartition(".")[2]

        def grant(due: int) -> None:
            # the last views may have gone a moment ago: what they held goes back with the credits,
            # not after them
            if lane == "bulk" and self.read_in_place.get(peer) == identity:
                asyncio.get_running_loop().call_soon(self._grant, lane, identity, due, peer)
            else:
                self._grant(lane, identity, due, "")

        book = GrantBook(self._credit_of(lane))
        source = self[key] = Source(peer, int(pid) if pid.isdecimal() else 0, book, grant)
        return source

    def _grant(self, lane: Lane, identity: bytes, due: int, peer: str) -> None:
        """Give back credits, and to a `peer` what is not seen any more of its arrays."""
        returns = self.take_due(peer) if peer else []
        if not self._answer(lane, identity, [granted([due, *returns])]):
            self.pop((lane, identity), None)  # the peer left: nobody waits for this grant

    def forget(self, peer: str) -> None:
        """It has left: nothing is owed to it."""
        for key in [key for key, source in self.items() if source.peer == peer]:
            del self[key]
        self.read_in_place.pop(peer, None)

    def give_back(self, peer: str) -> None:
        """Some arrays of a peer's are not seen here any more: tell it."""
        due = self.take_due(peer)
        if due and peer in self.read_in_place:
            self._answer("bulk", self.read_in_place[peer], [granted([0, *due])])
