"""Faults on purpose: between a road and its receiver a share of the messages is lost, duplicated,
reordered or delayed.

For tests. `Faults` is a `Deliver` around another one, so it works on every road:

    faults = Faults(node.deliver, Shares(drop=0.01), seed=1)
    road = ZmqTransport("worker", faults, node.reject, limits, ...)

The seed alone decides which fault the nth message of a sender on a lane meets. Under any fault, the
credits of a message return exactly once, when its last copy has been read. Its memory returns with
its last view. Actors see only the losses, since the router rejects duplicated and late messages.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from dataclasses import astuple, dataclass, fields

from runtime.errors import ConvoyError
from runtime.messages.message import Envelope, Lane
from runtime.transport.interface import Deliver, Release

_Parcel = tuple[Envelope, int, Release]


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of the messages that meets each fault; a message meets at most one fault.

    drop        it never arrives
    duplicate   it arrives twice
    reorder     the next message of its sender on its lane arrives before it; if none comes within
                `seconds`, it is only delayed
    delay       it arrives up to `seconds` later, and so do all later messages on its lane
    """

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        """Raise ConvoyError if a share is negative or the shares exceed 1 together."""
        if any(share < 0 for share in astuple(self)) or sum(astuple(self)) > 1:
            raise ConvoyError(f"{self!r}: each share must be 0 or more, and all together 1 at most")


class Faults:
    """A `Deliver` with faults. `counts` has the number of messages that met each fault: drop,
    duplicate, reorder, delay, none.
    """

    def __init__(
        self, deliver: Deliver, shares: Shares, *, seed: int, seconds: float = 0.002
    ) -> None:
        """`seconds` is the longest time that a message is kept back."""
        self.shares = shares
        self.counts: Counter[str] = Counter()
        self._deliver = deliver
        self._seed = seed
        self._seconds = seconds
        self._streams: dict[tuple[str, Lane], _Stream] = {}
        self._closed = False

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return f"<faults {counts or 'none yet'}>"

    def __call__(self, envelope: Envelope, size: int, release: Release) -> None:
        """Take a message from the road."""
        key = envelope.sender, envelope.message.lane
        if key not in self._streams:
            self._streams[key] = _Stream(
                random.Random(f"{self._seed} {key}")
            )  # repeatable, not secret
        stream = self._streams[key]
        fault = stream.draw(self.shares)
        if self._closed or fault == "drop":
            self.counts["drop"] += 1
            release()
        elif fault == "reorder" and stream.aside is None:
            stream.aside = envelope, size, release
            asyncio.get_running_loop().call_later(
                self._seconds, self._overdue, stream, stream.aside
            )
        else:
            self._pass(stream, fault, (envelope, size, release))

    def close(self) -> None:
        """Drop the messages that are kept back and all that still come; they count as lost."""
        self._closed = True
        for stream in self._streams.values():
            for _, _, release in stream.clear():
                self.counts["drop"] += 1
                release()

    def _pass(self, stream: _Stream, fault: str, parcel: _Parcel) -> None:
        copies = [parcel]
        if fault == "duplicate":
            envelope, size, release = parcel
            copies = [(envelope, size, _after(2, release))] * 2
        kept = [_Kept(copy) for copy in copies]
        if fault == "delay":
            kept[0].delayed = True
            seconds = stream.random.uniform(0, self._seconds)
            asyncio.get_running_loop().call_later(seconds, self._let_go, stream, kept[0])
        # if a message is set aside already, this one overtakes it
        self.counts["none" if fault == "reorder" else fault] += 1
        stream.queue.extend(kept)
        if stream.aside is not None:
            self.counts["reorder"] += 1
            stream.queue.append(_Kept(stream.aside))
            stream.aside = None
        self._flow(stream)

    def _let_go(self, stream: _Stream, kept: _Kept) -> None:
        kept.delayed = False
        self._flow(stream)

    def _overdue(self, stream: _Stream, parcel: _Parcel) -> None:
        if stream.aside is parcel:  # no message came to overtake it
            stream.aside = None
            self.counts["delay"] += 1
            stream.queue.append(_Kept(parcel))
            self._flow(stream)

    def _flow(self, stream: _Stream) -> None:
        while stream.queue and not stream.queue[0].delayed:
            self._deliver(*stream.queue.popleft().parcel)


@dataclass(slots=True)
class _Kept:
    parcel: _Parcel
    delayed: bool = False


class _Stream:
    """The messages of one sender on one lane."""

    def __init__(self, generator: random.Random) -> None:
        self.random = generator
        self.queue: deque[_Kept] = deque()  # messages behind a delayed one, in order
        self.aside: _Parcel | None = None  # the message that the next one overtakes

    def draw(self, shares: Shares) -> str:
        """Draw the fault of the next message."""
        point = self.random.random()
        for field in fields(shares):
            point -= getattr(shares, field.name)
            if point < 0:
                return field.name
        return "none"

    def clear(self) -> list[_Parcel]:
        """Remove and return all messages that are kept back."""
        kept = [kept.parcel for kept in self.queue] + (
            [self.aside] if self.aside is not None else []
        )
        self.queue.clear()
        self.aside = None
        return kept


def _after(copies: int, release: Release) -> Release:
    """A release that takes effect when it is called for the last copy."""
    left = copies

    def one_is_read() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            release()

    return one_is_read
