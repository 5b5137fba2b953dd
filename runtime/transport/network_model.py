"""The network of a simulated cluster: how long messages travel, and which messages share a rate.

    per link         each direction and lane of a pair of processes has the whole rate for itself
    per interface    a machine has one network interface. All messages that its processes send
                     share one rate, and all that they receive share another. Messages between
                     processes behind one interface arrive at once.

The messages of one link and lane leave one after the other. Messages of several links share rates
as TCP connections do (max-min): a message gets a larger rate than another only if the other one is
held back elsewhere. Small messages without arrays (the control lane) take time, but no share of a
rate.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Then = Callable[[], None]
# a share of the time until the next departure; messages due within it leave together
TOGETHER = 1e-9


@dataclass(eq=False)
class Way:
    """One direction of an interface, or of a single link: its rate in bytes per second, and the
    messages that are on it now."""

    rate: float
    flows: dict[Flow, None] = field(default_factory=dict)  # in the order in which they started


@dataclass(eq=False)
class Flow:
    """A message on its way over one or two ways: bytes still to go, and its present rate."""

    ways: tuple[Way, ...]
    left: float
    done: Then
    rate: float = 0.0


class Sharing:
    """The messages that are on their ways, and their shares of the rates."""

    def __init__(self) -> None:
        self._flows: list[Flow] = []
        self._due: list[Flow] = []  # messages that will have left at the next timer
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0  # loop time up to which `left` of all messages is known

    def add(self, flow: Flow) -> None:
        """Start a message. `done` is called when its last byte has left."""
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
        """Share the rates of the changed ways again, and set the timer to the next departure."""
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
    """Return these ways, and all ways that are connected with them through shared messages. All
    other messages keep their rates."""
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
    """Set the rates of messages by max-min: first share out the way that can give least to each of
    its messages, then the next, and so on."""
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
    """An exception for some links: a `latency`, and a rate of the link itself in addition to the
    rates of its interfaces. `sender` and `receiver` are process names or patterns. None: no
    exception."""

    sender: str
    receiver: str
    latency: float | None = None
    bytes_per_second: float | None = None

    def fits(self, a: str, b: str) -> bool:
        """Return whether this rule is for the link from process `a` to process `b`."""
        return fnmatch.fnmatchcase(a, self.sender) and fnmatch.fnmatchcase(b, self.receiver)


@dataclass
class Network:
    """A network with a `latency` in seconds and a rate in `bytes_per_second` (0: unlimited).

    The rate is that of each link. If `interfaces` names the interface of each process, it is the
    rate of each interface and direction. The first rule of `links` that fits a link may replace
    the latency and add a rate of the link itself. Times are those of the running event loop.
    """

    latency: float = 0.0
    bytes_per_second: float = 0.0
    interfaces: dict[str, str] | None = None
    links: Sequence[LinkRule] = ()

    def __post_init__(self) -> None:
        self.sharing = Sharing()
        self._outward: dict[str, Way] = {}
        self._inward: dict[str, Way] = {}

    def change_rate(self, bytes_per_second: float) -> None:
        """Give every interface another rate from now on. Messages on their way get their share of
        it as soon as another message starts or leaves."""
        self.bytes_per_second = bytes_per_second
        for way in (*self._outward.values(), *self._inward.values()):
            way.rate = bytes_per_second

    def route(self, a: str, b: str, lane: str) -> Route | None:
        """Return the route of one lane's messages from process `a` to process `b`. None: they
        arrive at once."""
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
    """One lane from one process to another. Its messages leave one after the other."""

    def __init__(self, sharing: Sharing, ways: tuple[Way, ...], latency: float) -> None:
        self._sharing = sharing
        self._ways = ways
        self._latency = latency
        self._leaving: deque[tuple[int, Then]] = deque()
        # messages on the way, oldest first: timers due at the same moment run in arbitrary order,
        # but arrivals must keep theirs
        self._arriving: deque[Then] = deque()

    def send(self, size: int, arrive: Then) -> None:
        """Send `size` bytes. Calls `arrive` when they and all bytes sent before them have
        arrived."""
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
        """The last byte of the oldest message has left: start the next one."""
        _, arrive = self._leaving.popleft()
        self._arriving.append(arrive)
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time() + self._latency, self._arrive)
        if self._leaving:
            self._start()

    def _arrive(self) -> None:
        self._arriving.popleft()()
