"""Sockets, whatever they are made of: a listener per lane, and a port to each peer, over which
frames travel.

`unix` and `zeromq` are two kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from runtime.messages.message import Lane
from runtime.transport.interface import Limits
from runtime.transport.keys import NO_KEYS, Keys

BATCH = 64  # messages read per turn of the loop: 8 ms at most between turns, at full throughput
# bytes; below this a copy is cheaper than keeping track of memory, on both sides
COPY_BELOW = 64 << 10
TURN_BYTES = 4 << 20  # of large messages, read or written per turn of the loop: about 1 ms
CLOSE_SECONDS = 1.0  # how long a clean stop waits for queued messages to leave

Frames = list[Any]  # bytes-like; one frame of a message each
# (identity of the sender, frames; none: what came was no message)
OnMessage = Callable[[bytes, Frames], None]
OnAnswer = Callable[[Frames], None]
OnLost = Callable[[], None]
# (who, as far as it can be told; why it may not talk with this process)
OnRefused = Callable[[str, str], None]


class Port(ABC):
    """The way to one peer on one lane; its answers come back on it."""

    @abstractmethod
    def send(self, frames: Frames) -> None:
        """Hand a message to the socket. Large frames are not copied: they must not change any more.
        What is sent to a peer that is gone goes nowhere; `on_lost` was called."""

    @abstractmethod
    def close(self, *, flush: bool) -> None:
        """Let go of it; with `flush` what was sent may still leave until the kind of ports is
        closed."""


class Listener(ABC):
    """Where the peers' ports of one lane end. `address` is what they connect to."""

    address: str

    @abstractmethod
    def answer(self, identity: bytes, frames: Frames) -> bool:
        """Send back to a peer on its port; False if it is not there any more."""

    @abstractmethod
    def close(self) -> None:
        """Take nothing more."""


class Ports(ABC):
    """One kind of sockets, for one process. Where strangers could connect, only who has the `keys`
    for it is let in."""

    def __init__(self, limits: Limits, keys: Keys = NO_KEYS) -> None:
        self.limits = limits
        self.keys = keys

    @abstractmethod
    def listen(
        self, address: str, lane: Lane, on_message: OnMessage, on_refused: OnRefused
    ) -> Listener:
        """Listen. OSError if the address is taken."""

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
        """Connect to a listener of `peer`'s, as `identity`. `on_lost` is called once, when the
        connection breaks or cannot be made: nobody makes it anew, since what was under way then is
        lost. LaunchError if there is no key for it, OSError if no descriptor is left."""

    @abstractmethod
    async def close(self) -> None:
        """When all listeners and ports are closed: wait until what is to be flushed has left,
        CLOSE_SECONDS at most."""
