"""The common interface of sockets: a listener per lane, and a port to each peer, over which frames
travel.

`unix` and `zeromq` are its two kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from runtime.messages.message import Lane
from runtime.transport.interface import Limits
from runtime.transport.keys import NO_KEYS, Keys

BATCH = 64  # messages read per turn of the loop: 8 ms at most between turns, at full throughput
# bytes; below this size, copying costs both sides less than keeping track of the memory
COPY_BELOW = 64 << 10
TURN_BYTES = 4 << 20  # bytes of large messages, read or written per turn of the loop: about 1 ms
CLOSE_SECONDS = 1.0  # a clean stop waits this long for queued messages to leave

Frames = list[Any]  # bytes-like; one item per frame of a message
# (identity of the sender, frames); no frames if the received bytes were not a message
OnMessage = Callable[[bytes, Frames], None]
OnAnswer = Callable[[Frames], None]
OnLost = Callable[[], None]
# (the peer, as far as it is known; the reason why it was refused)
OnRefused = Callable[[str, str], None]


class Port(ABC):
    """The connection to one peer on one lane. Its answers come back on it."""

    @abstractmethod
    def send(self, frames: Frames) -> None:
        """Send a message. Large frames are not copied: they must not change any more.

        A message to a peer that is gone is dropped; `on_lost` was called.
        """

    @abstractmethod
    def close(self, *, flush: bool) -> None:
        """Close the port. With `flush`, sent messages may still leave until the Ports are
        closed."""


class Listener(ABC):
    """The end to which the peers' ports of one lane connect, at `address`."""

    address: str

    @abstractmethod
    def answer(self, identity: bytes, frames: Frames) -> bool:
        """Send frames back to a peer on its port. Returns False if the peer has left."""

    @abstractmethod
    def close(self) -> None:
        """Receive nothing more."""


class Ports(ABC):
    """One kind of sockets, for one process. Where any process could connect, only peers that have
    the `keys` are let in."""

    def __init__(self, limits: Limits, keys: Keys = NO_KEYS) -> None:
        self.limits = limits
        self.keys = keys

    @abstractmethod
    def listen(
        self, address: str, lane: Lane, on_message: OnMessage, on_refused: OnRefused
    ) -> Listener:
        """Listen at `address`. Raises OSError if it is taken.

        Calls `on_message` for each message, and `on_refused` for each peer that is not let in.
        """

    @abstractmethod
    def connect(
        self,
        peer: str,
        address: str,
        lane: Lane,
        identity: bytes,
        on_answer: OnAnswer,
        on_lost: OnLost,
    ) -> Port:
        """Connect to a listener of `peer`, as `identity`.

        `on_lost` is called once, when the connection breaks or cannot be made. It is never made
        again, since the messages under way are lost. Raises LaunchError if the process has no key
        for the peer, and OSError if it has no descriptor left.
        """

    @abstractmethod
    async def close(self) -> None:
        """Wait until messages to be flushed have left, CLOSE_SECONDS at most. Call it after closing
        all listeners and ports."""
