"""The credit accounts between two processes over sockets: the bytes that one may still send, and
the credits that the other owes it for messages that were read.

An answer on a port is a list of numbers: credits, then offsets of the sender's arrays whose last
view at the receiver is gone.
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
    """Return the frame of an answer with these numbers."""
    return b"".join(map(_NUMBER.pack, numbers))


class PeerLink:
    """The link to one peer on one lane: a port and its credits."""

    def __init__(self, limit: int, connect: Callable[[Callable[[Frames], None]], Port]) -> None:
        self.gate = CreditGate(limit)
        self.lost = False  # the connection broke
        self.on_returned: Callable[[list[int]], None] = lambda offsets: None
        self.port = connect(self._granted)

    def close(self, why: str, *, flush: bool = False) -> None:
        """Fail senders that wait for credits, and close the port."""
        self.gate.close(why)
        self.port.close(flush=flush)

    def _granted(self, frames: list[Any]) -> None:
        if len(frames) == 1 and frames[0] and not len(frames[0]) % _NUMBER.size:
            (granted,), *offsets = _NUMBER.iter_unpack(frames[0])
            # before the grant: a sender that gets credits may need the memory
            self.on_returned([offset for (offset,) in offsets])
            self.gate.grant(granted)


class Source:
    """Messages from one peer on one lane, and the credits that it is owed."""

    def __init__(self, peer: str, pid: int, book: GrantBook, grant: Callable[[int], None]) -> None:
        self.peer = peer
        self.pid = pid
        self._book = book
        self._grant = grant

    def release(self, size: int) -> None:
        """Note that a message of `size` bytes was handled. The credits are granted to the peer once
        they are worth a message."""
        due = self._book.release(cost_of(size))
        if due:
            self._grant(due)


class Sources(dict[tuple[Lane, bytes], Source]):
    """The credits owed to all peers that send, by lane and identity. An unknown peer is added when
    it is looked up.

    `answer(lane, identity, frames)` sends frames back to a peer on its connection. It returns False
    if the peer is gone.
    """

    def __init__(
        self, credit_of: Callable[[Lane], int], answer: Callable[[Lane, bytes, Frames], bool]
    ) -> None:
        super().__init__()
        # identities of the peers whose arrays are read in place
        self.read_in_place: dict[str, bytes] = {}
        # returns offsets of a peer's arrays whose last view is gone
        self.take_due: Callable[[str], list[int]] = lambda peer: []
        self._credit_of = credit_of
        self._answer = answer

    def __missing__(self, key: tuple[Lane, bytes]) -> Source:
        lane, identity = key
        peer, _, life = identity.decode(errors="replace").rpartition("/")
        pid = life.rpartition(".")[2]

        def grant(due: int) -> None:
            # The last views may have gone a moment ago. Then the offsets of their arrays go back
            # together with the credits, not after them.
            if lane == "bulk" and self.read_in_place.get(peer) == identity:
                asyncio.get_running_loop().call_soon(self._grant, lane, identity, due, peer)
            else:
                self._grant(lane, identity, due, "")

        book = GrantBook(self._credit_of(lane))
        source = self[key] = Source(peer, int(pid) if pid.isdecimal() else 0, book, grant)
        return source

    def _grant(self, lane: Lane, identity: bytes, due: int, peer: str) -> None:
        """Grant credits, and give `peer` its arrays back whose last view here is gone."""
        returns = self.take_due(peer) if peer else []
        if not self._answer(lane, identity, [granted([due, *returns])]):
            self.pop((lane, identity), None)  # the peer has left, so the grant is not needed

    def forget(self, peer: str) -> None:
        """Forget a peer that has left."""
        for key in [key for key, source in self.items() if source.peer == peer]:
            del self[key]
        self.read_in_place.pop(peer, None)

    def give_back(self, peer: str) -> None:
        """Give a peer its arrays back whose last view here is gone."""
        due = self.take_due(peer)
        if due and peer in self.read_in_place:
            self._answer("bulk", self.read_in_place[peer], [granted([0, *due])])
