"""Faults on purpose: between a road and whoever it delivers to, a share of the messages is lost, doubled, overtaken, late.

For tests. It is a `Deliver` around another one, so it serves every road alike:

    faults = Faults(node.deliver, Shares(lose=0.01), seed=1)
    road = ZmqTransport("worker", faults, node.reject, limits, ...)

What is done to the nth message of a sender on a lane depends on the seed alone. Whatever happens to a message, its
credits go back exactly once, when the last copy of it has been read; its memory goes back with its last view.
What never lives here: what actors make of it (`switchboard` lets no message through twice or out of order).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from dataclasses import astuple, dataclass, fields

from runtime.errors import ConvoyError
from runtime.messages import Envelope, Lane
from runtime.transport.base import Deliver, Release

_Parcel = tuple[Envelope, int, Release]


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the messages, which share meets which fault; a message meets one at most.

    lose     it never arrives
    double   it arrives twice
    swap     the next of its sender on its lane arrives before it; if none comes for `seconds`, it is merely late
    hold     it arrives up to `seconds` later, and all behind it on its lane with it
    """

    lose: float = 0.0
    double: float = 0.0
    swap: float = 0.0
    hold: float = 0.0

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        if any(share < 0 for share in astuple(self)) or sum(astuple(self)) > 1:
            raise ConvoyError(f"{self!r}: each share must be 0 or more, and all together 1 at most")


class Faults:
    """A `Deliver` with faults. `counts` says how many messages met each: lose, double, swap, hold, and none."""

    def __init__(self, deliver: Deliver, shares: Shares, *, seed: int, seconds: float = 0.002) -> None:
        """`seconds` is the longest that a message is kept."""
        self.shares = shares
        self.counts: Counter[str] = Counter()
        self._deliver = deliver
        self._seed, self._seconds = seed, seconds
        self._streams: dict[tuple[str, Lane], _Stream] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<faults {', '.join(f'{name} {count}' for name, count in sorted(self.counts.items())) or 'none yet'}>"

    def __call__(self, envelope: Envelope, size: int, release: Release) -> None:
        """A road delivers."""
        key = envelope.sender, envelope.message.lane
        if key not in self._streams:
            self._streams[key] = _Stream(random.Random(f"{self._seed} {key}"))  # noqa: S311  # repeatable, not secret
        stream = self._streams[key]
        fault = stream.draw(self.shares)
        if self._closed or fault == "lose":
            self.counts["lose"] += 1
            release()
        elif fault == "swap" and stream.aside is None:
            stream.aside = envelope, size, release
            asyncio.get_running_loop().call_later(self._seconds, self._overdue, stream, stream.aside)
        else:
            self._pass(stream, fault, (envelope, size, release))

    def close(self) -> None:
        """Give up what is kept back, and all that still comes: it counts as lost."""
        self._closed = True
        for stream in self._streams.values():
            for _, _, release in stream.clear():
                self.counts["lose"] += 1
                release()

    def _pass(self, stream: _Stream, fault: str, parcel: _Parcel) -> None:
        copies = [parcel]
        if fault == "double":
            envelope, size, release = parcel
            copies = [(envelope, size, _after(2, release))] * 2
        due = 0.0
        if fault == "hold":
            loop = asyncio.get_running_loop()
            due = loop.time() + stream.random.uniform(0, self._seconds)
            loop.call_at(due, self._flow, stream)
        self.counts["none" if fault == "swap" else fault] += 1  # a swap while another is still aside
        stream.queue.extend((due, copy) for copy in copies)
        if stream.aside is not None:
            self.counts["swap"] += 1
            stream.queue.append((0.0, stream.aside))
            stream.aside = None
        self._flow(stream)

    def _overdue(self, stream: _Stream, parcel: _Parcel) -> None:
        if stream.aside is parcel:  # nothing came to overtake it
            stream.aside = None
            self.counts["hold"] += 1
            stream.queue.append((0.0, parcel))
            self._flow(stream)

    def _flow(self, stream: _Stream) -> None:
        now = asyncio.get_running_loop().time()
        while stream.queue and stream.queue[0][0] <= now:
            self._deliver(*stream.queue.popleft()[1])


class _Stream:
    """What one sender sends on one lane."""

    def __init__(self, generator: random.Random) -> None:
        self.random = generator
        self.queue: deque[tuple[float, _Parcel]] = deque()  # (when the first may go on at the earliest, it), in order
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
        kept = [parcel for _, parcel in self.queue] + ([self.aside] if self.aside is not None else [])
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
