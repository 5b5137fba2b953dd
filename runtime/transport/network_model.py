"""The network of a simulated cluster: how long messages travel, and who shares which rate.

    per link         each direction and lane of a pair of processes has the whole rate for itself
    per interface    a machine has one network interface: all that its processes send shares one rate, all that they
                     receive another; processes behind one interface reach one another at once

Messages of one link and lane leave one after the other. Those of several links that are under way at once share what
they have to share as TCP connections do: nobody gets more until all with less are held back elsewhere (max-min). Small
messages without arrays (the control lane) take their time but no share.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Then = Callable[[], None]
TOGETHER = 1e-9  # of the time until the next message has left: who is due so much later leaves with it


@dataclass(eq=False)
class Wire:
    """One direction of an interface, or a link's own: bytes per second, and the messages that are on it now."""

    rate: float
    flows: list[Flow] = field(default_factory=list)


@dataclass(eq=False)
class Flow:
    """A message on its way over one wire or two: bytes still to go, and the present rate."""

    wires: tuple[Wire, ...]
    left: float
    done: Then
    rate: float = 0.0


class Sharing:
    """Messages on wires."""

    def __init__(self) -> None:
        self._flows: list[Flow] = []
        self._due: list[Flow] = []  # those that have left when the timer rings
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0  # until this loop time what is left is known

    def add(self, flow: Flow) -> None:
        """A message sets out; `done` is called when its last byte has left."""
        self._advance()
        self._flows.append(flow)
        for wire in flow.wires:
            wire.flows.append(flow)
        self._plan()

    def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        for flow in self._flows:
            flow.left -= flow.rate * (now - self._last)
        self._last = now

    def _plan(self) -> None:
        """Share the wires anew, and set the timer to the first that will have left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._share()
        if self._flows:
            first = max(0.0, min(flow.left / flow.rate for flow in self._flows))
            self._due = [flow for flow in self._flows if flow.left / flow.rate <= first * (1 + TOGETHER)]
            self._timer = asyncio.get_running_loop().call_at(self._last + first, self._ring)

    def _ring(self) -> None:
        self._advance()
        self._timer, due = None, self._due
        for flow in due:
            self._flows.remove(flow)
            for wire in flow.wires:
                wire.flows.remove(flow)
        for flow in due:
            flow.done()
        self._plan()

    def _share(self) -> None:
        """Max-min: the wire that can give least to each of its messages is the first to be shared out, and so on."""
        left = {wire: wire.rate for flow in self._flows for wire in flow.wires}
        waiting = {wire: list(wire.flows) for wire in left}
        while left:
            tightest = min(left, key=lambda wire: left[wire] / len(waiting[wire]))
            share = left[tightest] / len(waiting[tightest])
            for flow in waiting.pop(tightest):
                flow.rate = share
                for wire in flow.wires:
                    if wire is not tightest:
                        left[wire] -= share
                        waiting[wire].remove(flow)
            left = {wire: rate for wire, rate in left.items() if waiting.get(wire)}


@dataclass(frozen=True)
class Link:
    """What is different from process to process, names or patterns: a `latency`, and a rate of the link itself, which
    comes on top of what its interfaces allow. None: as everywhere."""

    sender: str
    receiver: str
    latency: float | None = None
    bytes_per_second: float | None = None

    def fits(self, a: str, b: str) -> bool:
        """Is this the link from process `a` to process `b`?"""
        return fnmatch.fnmatchcase(a, self.sender) and fnmatch.fnmatchcase(b, self.receiver)


@dataclass
class Network:
    """`latency` in seconds; `bytes_per_second` (0: unlimited) of every link, or, where `interfaces` names the
    interface of each process, of every interface and direction; of `links` the first that fits counts. Times are those
    of the running event loop."""

    latency: float = 0.0
    bytes_per_second: float = 0.0
    interfaces: Mapping[str, str] | None = None
    links: Sequence[Link] = ()

    def __post_init__(self) -> None:
        self.sharing = Sharing()
        self._outward: dict[str, Wire] = {}
        self._inward: dict[str, Wire] = {}

    def route(self, a: str, b: str, lane: str) -> Route | None:
        """The way of one lane's messages from process `a` to process `b`; None: they are there at once."""
        if a == b or (self.interfaces is not None and self._named(a) == self._named(b)):
            return None
        link = next((link for link in self.links if link.fits(a, b)), Link(a, b))
        latency = self.latency if link.latency is None else link.latency
        wires = self._wires(a, b, lane)
        if link.bytes_per_second is not None:
            wires.append(Wire(link.bytes_per_second))
        wires = [wire for wire in wires if wire.rate]
        return Route(self.sharing, tuple(wires), latency) if wires or latency else None

    def _wires(self, a: str, b: str, lane: str) -> list[Wire]:
        rate = self.bytes_per_second
        if self.interfaces is None or lane == "control":
            return [Wire(rate)]
        outward = self._outward.setdefault(self._named(a), Wire(rate))
        return [outward, self._inward.setdefault(self._named(b), Wire(rate))]

    def _named(self, process: str) -> str:
        return (self.interfaces or {}).get(process, process)


class Route:
    """One lane from one process to another: its messages, one after the other, over its wires."""

    def __init__(self, sharing: Sharing, wires: tuple[Wire, ...], latency: float) -> None:
        self._sharing, self._wires, self._latency = sharing, wires, latency
        self._leaving: deque[tuple[int, Then]] = deque()
        # On the way, oldest first: timers that are due at one moment run in no order, arrivals must keep theirs.
        self._arriving: deque[Then] = deque()

    def send(self, size: int, arrive: Then) -> None:
        """Call `arrive` when `size` bytes that leave now have come, and all that were sent before them."""
        self._leaving.append((size, arrive))
        if len(self._leaving) == 1:
            self._start()

    def _start(self) -> None:
        size, _ = self._leaving[0]
        if self._wires:
            self._sharing.add(Flow(self._wires, size, self._left))
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
