"""The road inside one operating-system process: arrays are handed over by reference, through the
same codec.

Used between actors that share a process, and, with a latency and a rate, between the simulated
processes of a cluster that runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from runtime.errors import ActorStopped, MessageError
from runtime.messages import wire
from runtime.messages.arrays import Frame
from runtime.messages.credits import CreditGate, cost_of
from runtime.messages.message import Envelope, Lane
from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Transport
from runtime.transport.network_model import Network, Route


class Transfer(NamedTuple):
    """A message that has travelled: when it was given to the network, when it had arrived (loop
    time), what it was."""

    sent: float
    arrived: float
    envelope: Envelope
    size: int


@dataclass
class InprocNetwork(Network):
    """Where the transports of one event loop find one another, and how long messages between them
    travel.

    What `Network` says of a latency and a rate holds between two different processes; it takes no
    real time on a virtual clock. `on_transfer` is told of every message that has arrived.
    """

    members: dict[str, InprocTransport] = field(default_factory=dict)
    on_transfer: Callable[[Transfer], None] | None = None


class _Link:
    """One direction, one lane, between two processes."""

    def __init__(self, limit: int, route: Route | None) -> None:
        self.gate = CreditGate(limit)
        self.route = route  # None: messages are there at once


class InprocTransport(Transport):
    """Transport between processes that live on one event loop."""

    def __init__(
        self, process: str, deliver: Deliver, reject: Reject, limits: Limits, network: InprocNetwork
    ) -> None:
        super().__init__(process, deliver, reject, limits)
        self.network = network
        self._links: dict[tuple[str, Lane], _Link] = {}
        self._closed = False

    async def open(self) -> Endpoints:
        """Join the network under the process's name."""
        self.network.members[self.process] = self
        return Endpoints((f"inproc://{self.process}",), (f"inproc://{self.process}",))

    def connect(self, peer: str, endpoints: Endpoints) -> None:
        """Make `peer` reachable; the endpoints are not needed on this road."""
        lanes: tuple[Lane, Lane] = ("control", "bulk")
        for lane in lanes:
            route = self.network.route(self.process, peer, lane)
            self._links[peer, lane] = _Link(self.limits.credit_of(lane), route)

    def disconnect(self, peer: str, why: str) -> None:
        """See Transport.disconnect."""
        for key in [key for key in self._links if key[0] == peer]:
            self._links.pop(key).gate.close(why)

    async def send(self, peer: str, envelope: Envelope) -> None:
        """See Transport.send. The receiver gets read-only views of the sender's arrays."""
        link = self._links.get((peer, envelope.message.lane))
        if link is None or self._closed:
            raise ActorStopped(f"{self.process} has no link to {peer}")
        frames = wire.encode(envelope)
        size = wire.size_of(frames)
        most = self.limits.message_bytes  # of one frame, as on the other roads
        if size > most and max(wire.size_of([frame]) for frame in frames) > most:
            raise MessageError("too_large", f"{envelope!r} has {size} bytes, at most {most}")
        await link.gate.acquire(cost_of(size))
        sent = asyncio.get_running_loop().time()
        arrive = partial(self._arrive, peer, link, frames, size, sent)
        if link.route is None:
            asyncio.get_running_loop().call_soon(arrive)
        else:
            link.route.send(size, arrive)

    def _arrive(self, peer: str, link: _Link, frames: list[Frame], size: int, sent: float) -> None:
        def release() -> None:
            link.gate.grant(cost_of(size))

        target = self.network.members.get(peer)
        if target is None or target._closed:
            release()
            return
        try:
            envelope = wire.decode(frames)
        except MessageError as error:
            release()
            target.reject(self.process, error)
            return
        if self.network.on_transfer is not None:
            self.network.on_transfer(
                Transfer(sent, asyncio.get_running_loop().time(), envelope, size)
            )
        target.deliver(envelope, size, release)

    async def close(self) -> None:
        """Leave the network; what is on its way here is given back to its senders."""
        self._closed = True
        self.network.members.pop(self.process, None)
        for link in self._links.values():
            link.gate.close(f"{self.process} is stopping")

    def queued_bytes(self) -> dict[str, int]:
        """See Transport.queued_bytes."""
        queued: dict[str, int] = {}
        for (peer, _), link in self._links.items():
            queued[peer] = queued.get(peer, 0) + link.gate.outstanding
        return queued
