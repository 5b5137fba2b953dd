"""The network of a simulated cluster: how long messages travel, and who shares which rate.

    per link         each direction and lane of a pair of processes has the whole rate for itself
    per interface    a machine has one network interface: all that its processes send shares one rate, all that they
                     receive another. A message takes both for size / rate, as its first byte leaves and arrives;
                     processes behind one interface reach one another at once.

Messages without arrays (the control lane) are not held up behind large ones: packets of several connections take turns
on a wire, and the bytes of control are few. What never lives here: order, credits, delivery (`inproc`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Then = Callable[[], None]


@dataclass
class Line:
    """Something that carries one message at a time: `free_at` is the loop time at which the last one is through."""

    free_at: float = 0.0

    def take(self, now: float, seconds: float) -> float:
        """Carry one more message for `seconds` as soon as it is free; when that begins."""
        begins = max(now, self.free_at)
        self.free_at = begins + seconds
        return begins


@dataclass
class Interface:
    """Both directions of one network interface."""

    out: Line = field(default_factory=Line)
    into: Line = field(default_factory=Line)


@dataclass
class Network:
    """`latency` in seconds; `bytes_per_second` (0: unlimited) of every link, or, where `interfaces` names the
    interface of each process, of every interface and direction. Times are those of the running event loop."""

    latency: float = 0.0
    bytes_per_second: float = 0.0
    interfaces: Mapping[str, str] | None = None
    _known: dict[str, Interface] = field(default_factory=dict, repr=False)

    def travel_time(self, size: int) -> float:
        """Seconds that `size` bytes occupy a line."""
        return size / self.bytes_per_second if self.bytes_per_second else 0.0

    def near(self, a: str, b: str) -> bool:
        """Are messages between these processes there at once?"""
        if a == b or not (self.latency or self.bytes_per_second):
            return True
        return self.interfaces is not None and self._named(a) == self._named(b)

    def route(self, a: str, b: str, lane: str) -> Route:
        """The way of one lane's messages from process `a` to process `b`."""
        if self.interfaces is None or lane == "control":
            return Route(self, Line(), None)
        return Route(self, self._interface(a).out, self._interface(b).into)

    def _named(self, process: str) -> str:
        return (self.interfaces or {}).get(process, process)

    def _interface(self, process: str) -> Interface:
        return self._known.setdefault(self._named(process), Interface())


class Route:
    """One lane from one process to another: a line to leave by and, with interfaces, one to arrive by."""

    def __init__(self, network: Network, out: Line, into: Line | None) -> None:
        self._network, self._out, self._into = network, out, into
        # On the way, oldest first: timers that are due at one moment run in no order, arrivals must keep theirs.
        self._leaving: deque[tuple[int, Then]] = deque()
        self._arriving: deque[Then] = deque()

    def send(self, size: int, arrive: Then) -> None:
        """Call `arrive` when `size` bytes that leave now have come, and all that were sent before them."""
        loop, network = asyncio.get_running_loop(), self._network
        seconds = network.travel_time(size)
        begins = self._out.take(loop.time(), seconds)
        if self._into is None:
            self._arriving.append(arrive)
            loop.call_at(begins + seconds + network.latency, self._arrive)
        else:
            self._leaving.append((size, arrive))
            loop.call_at(begins + network.latency, self._reach)

    def _reach(self) -> None:
        """The first byte is at the receiver's interface: it comes in when that is free."""
        assert self._into is not None
        loop = asyncio.get_running_loop()
        size, arrive = self._leaving.popleft()
        seconds = self._network.travel_time(size)
        self._arriving.append(arrive)
        loop.call_at(self._into.take(loop.time(), seconds) + seconds, self._arrive)

    def _arrive(self) -> None:
        self._arriving.popleft()()
