"""The network of a simulated cluster: how long messages travel, and who shares which rate.

    per link         each direction and lane of a pair of processes has the whole rate for itself
    per interface    a machine has one network interface: all that its processes send shares one
                     rate, all that they receive another; processes behind one interface reach one
                     another at once

Messages of one link and lane leave one after the other. Those of several links that are under way
at once share what they have to share as TCP connections do: nobody gets more until all with less
are held back elsewhere (max-min). Small messages without arrays (the control lane) take their time
but no share.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Then = Callable[[], None]
# of the time until the next message has left: who is due so much later leaves with it
TOGETHER = 1e-9


@dataclass(eq=False)
class Way:
    """One direction of an interface, or a link's own: bytes per second, and the messages that are
    on it now."""

    rate: float
    flows: dict[Flow, None] = field(default_factory=dict)  # in the order of their beginning


@dataclass(eq=False)
class Flow:
    """A message on its way over one way or two: bytes still to go, and the present rate."""

    ways: tuple[Way, ...]
    left: float
    done: Then
    rate: float = 0.0


class Sharing:
    """Messages on ways."""

    def __init__(self) -> None:
        self._flows: list[Flow] = []
        self._due: list[Flow] = []  # those that have left when the timer rings
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0  # until this loop time what is left is known

    def add(self, flow: Flow) -> None:
        """A message sets out; `done` is called when its last byte has left."""
        self._advance()
        self._flows.append(flow)
        for way in flow.ways:
            way.flows[flow] = None
        self._plan(flow.ways)

    def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        for flow in self._flows:
            flow.left -= flow.rate * (now - self._last)
        self._last = now

    def _plan(self, changed: Iterable[Way]) -> None:
        """Share the ways that have changed anew, and set the timer to the first that will have
        left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        _share(_connected(changed))
        if self._flows:
            first = max(0.0, min(flow.left / flow.rate for flow in self._flows))
            self._due = [
                flow for flow in self._flows if flow.left / flow.rate <= first * (1 + TOGETHER)
            ]
            self._timer = asyncio.get_running_loop().call_at(self._last + first, self._ring)

    def _ring(self) -> None:
        self._advance()
        self._timer = None
        due = self._due
        for flow in due:
            self._flows.remove(flow)
            for way in flow.ways:
                del way.flows[flow]
        for flow in due:
            flow.done()
        self._plan([way for flow in due for way in flow.ways])


def _connected(ways: Iterable[Way]) -> list[Way]:
    """These, those that their messages are on, and so on: what the others carry has the rates that
    it had."""
    found = dict.fromkeys(ways)
    waiting = list(found)
    while waiting:
        for flow in waiting.pop().flows:
            for way in flow.ways:
                if way not in found:
                    found[way] = None
                    waiting.append(way)
    return [way for way in found if way.flows]


def _share(ways: Iterable[Way]) -> None:
    """Max-min: the way that can give least to each of its messages is the first to be shared out,
    and so on."""
    left = {way: way.rate for way in ways}
    waiting = {way: dict(way.flows) for way in left}
    while left:
        tightest = min(left, key=lambda way: left[way] / len(waiting[way]))
        share = left.pop(tightest) / len(waiting[tightest])
        for flow in waiting.pop(tightest):
            flow.rate = share
            for way in flow.ways:
                if way is not tightest:
                    left[way] -= share
                    del waiting[way][flow]
                    if not waiting[way]:
                        del left[way]


@dataclass(frozen=True)
class LinkRule:
    """What is different from process to process, names or patterns: a `latency`, and a rate of the
    link itself, which comes on top of what its interfaces allow. None: as everywhere."""

    sender: str
    receiver: str
    latency: float | None = None
    bytes_per_second: float | None = None

    def fits(self, a: str, b: str) -> bool:
        """Is this the link from process `a` to process `b`?"""
        return fnmatch.fnmatchcase(a, self.sender) and fnmatch.fnmatchcase(b, self.receiver)


@dataclass
class Network:
    """`latency` in seconds; `bytes_per_second` (0: unlimited) of every link, or, where `interfaces`
    names the interface of each process, of every interface and direction; of `links` the first that
    fits counts. Times are those of the running event loop."""

    latency: float = 0.0
    bytes_per_second: float = 0.0
    interfaces: Mapping[str, str] | None = None
    links: Sequence[LinkRule] = ()

    def __post_init__(self) -> None:
        self.sharing = Sharing()
        self._outward: dict[str, Way] = {}
        self._inward: dict[str, Way] = {}

    def route(self, a: str, b: str, lane: str) -> Route | None:
        """The way of one lane's messages from process `a` to process `b`; None: they are there at
        once."""
        if a == b or (self.interfaces is not None and self._named(a) == self._named(b)):
            return None
        link = next((link for link in self.links if link.fits(a, b)), LinkRule(a, b))
        latency = self.latency if link.latency is None else link.latency
        ways = self._ways(a, b, lane)
        if link.bytes_per_second is not None:
            ways.append(Way(link.bytes_per_second))
        ways = [way for way in ways if way.rate]
        return Route(self.sharing, tuple(ways), latency) if ways or latency else None

    def _ways(self, a: str, b: str, lane: str) -> list[Way]:
        rate = self.bytes_per_second
        if self.interfaces is None or lane == "control":
            return [Way(rate)]
        outward = self._outward.setdefault(self._named(a), Way(rate))
        return [outward, self._inward.setdefault(self._named(b), Way(rate))]

    def _named(self, process: str) -> str:
        return (self.interfaces or {}).get(process, process)


class Route:
    """One lane from one process to another: its messages, one after the other, over its ways."""

    def __init__(self, sharing: Sharing, ways: tuple[Way, ...], latency: float) -> None:
        self._sharing = sharing
        self._ways = ways
        self._latency = latency
        self._leaving: deque[tuple[int, Then]] = deque()
        # On the way, oldest first: timers that are due at one moment run in no order, arrivals must
        # keep theirs.
        self._arriving: deque[Then] = deque()

    def send(self, size: int, arrive: Then) -> None:
        """Call `arrive` when `size` bytes that leave now have come, and all that were sent before
        them."""
        self._leaving.append((size, arrive))
        if len(self._leaving) == 1:
            self._start()

    def _start(self) -> None:
        size, _ = self._leaving[0]
        if self._ways:
            self._sharing.add(Flow(self._ways, size, self._left))
        else:
            self._left()

    def _left(self) -> None:
        """The last byte of the oldest has left: the next may go."""
        _, arrive = self._leaving.popleft()
        self._arriving.append(arrive)
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time() + self._latency, self._arrive)
        if self._leaving:
            self._start()

    def _arrive(self) -> None:
        self._arriving.popleft()()
