"""Faults on purpose: between a road and its receiver a share of the messages is lost, doubled,
overtaken or late.

For tests. It is a `Deliver` around another one, so it serves every road alike:

    faults = Faults(node.deliver, Shares(drop=0.01), seed=1)
    road = ZmqTransport("worker", faults, node.reject, limits, ...)

What is done to the nth message of a sender on a lane depends on the seed alone. Whatever happens to
a message, its credits go back exactly once, when the last copy of it has been read; its memory goes
back with its last view. Actors see none of it but losses: the router lets no message through twice
or out of order.
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
    """Of the messages, which share meets which fault; a message meets one at most.

    drop        it never arrives
    duplicate   it arrives twice
    reorder     the next of its sender on its lane arrives before it; if none comes for `seconds`,
                it is delayed only
    delay       it arrives up to `seconds` later, and everything behind it on its lane with it
    """

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        if any(share < 0 for share in astuple(self)) or sum(astuple(self)) > 1:
            raise ConvoyError(f"{self!r}: each share must be 0 or more, and all together 1 at most")


class Faults:
    """A `Deliver` with faults. `counts` says how many messages met each: drop, duplicate, reorder,
    delay, none."""

    def __init__(
        self, deliver: Deliver, shares: Shares, *, seed: int, seconds: float = 0.002
    ) -> None:
        """`seconds` is the longest that a message is kept."""
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
        """A road delivers."""
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
        """Give up what is kept back, and all that still comes: it counts as lost."""
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
        # one is aside already, and this one overtakes it
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
        if stream.aside is parcel:  # nothing came to overtake it
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
    """What one sender sends on one lane."""

    def __init__(self, generator: random.Random) -> None:
        self.random = generator
        self.queue: deque[_Kept] = deque()  # behind one that is delayed, in order
        self.aside: _Parcel | None = None  # to be overtaken by the next

    def draw(self, shares: Shares) -> str:
        """What is done to the next message."""
        point = self.random.random()
        for field in fields(shares):
            point -= getattr(shares, field.name)
            if point < 0:
                return field.name
        return "none"

    def clear(self) -> list[_Parcel]:
        """Everything that is kept back here; afterwards nothing is."""
        kept = [kept.parcel for kept in self.queue] + (
            [self.aside] if self.aside is not None else []
        )
        self.queue.clear()
        self.aside = None
        return kept


def _after(copies: int, release: Release) -> Release:
    """A release that does its work when it is called for the last of the copies."""
    left = copies

    def one_is_read() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            release()

    return one_is_read
