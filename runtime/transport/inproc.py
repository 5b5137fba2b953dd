"""The transport inside one operating-system process: arrays are passed by reference, through the
same codec.

It connects actors that share a process. With a latency and a rate, it connects the simulated
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
from runtime.messages.frame_sizes import size_of_frame
from runtime.messages.message import Envelope, Lane
from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Transport
from runtime.transport.network_model import Network, Route


class Transfer(NamedTuple):
    """A message that has travelled: the loop times at which it was sent and arrived, the envelope,
    and its bytes."""

    sent: float
    arrived: float
    envelope: Envelope
    size: int


@dataclass
class InprocNetwork(Network):
    """The place where the transports of one event loop find each other, with the travel times of
    messages between them.

    Latencies and rates of `Network` hold between two different processes. They take no real time on
    a virtual clock. `on_transfer` is called for every message that has arrived.
    """

    members: dict[str, InprocTransport] = field(default_factory=dict)
    on_transfer: Callable[[Transfer], None] | None = None


class _Link:
    """One direction and lane between two processes."""

    def __init__(self, limit: int, route: Route | None) -> None:
        self.gate = CreditGate(limit)
        self.route = route  # None: messages arrive at once


class InprocTransport(Transport):
    """The transport between processes that live on one event loop."""

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
        """Make `peer` reachable. This transport does not need endpoints."""
        lanes: tuple[Lane, Lane] = ("control", "bulk")
        for lane in lanes:
            route = self.network.route(self.process, peer, lane)
            self._links[peer, lane] = _Link(self.limits.credit_of(lane), route)

    def disconnect(self, peer: str, why: str) -> None:
        for key in [key for key in self._links if key[0] == peer]:
            self._links.pop(key).gate.close(why)

    async def send(self, peer: str, envelope: Envelope) -> None:
        """Send an envelope; see Transport.send. The receiver gets read-only views of the sender's
        arrays."""
        key = peer, envelope.message.lane
        link = self._links.get(key)
        if link is None or self._closed:
            raise ActorStopped(f"{self.process} has no link to {peer}")
        frames = wire.encode(envelope)
        size = wire.size_of(frames)
        most = self.limits.message_bytes  # of one frame, as in the other transports
        if size > most and max(map(size_of_frame, frames)) > most:
            raise MessageError("too_large", f"{envelope!r} has {size} bytes, at most {most}")
        await link.gate.acquire(cost_of(size))
        sent = asyncio.get_running_loop().time()
        arrive = partial(self._arrive, key, link, frames, size, sent)
        if link.route is None:
            asyncio.get_running_loop().call_soon(arrive)
        else:
            link.route.send(size, arrive)

    def _arrive(
        self, key: tuple[str, Lane], link: _Link, frames: list[Frame], size: int, sent: float
    ) -> None:
        def release() -> None:
            link.gate.grant(cost_of(size))

        target = self.network.members.get(key[0])
        former = self._links.get(key) is not link  # the peer has died meanwhile
        if target is None or target._closed or former:
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
        """Leave the network. Credits of messages on their way here return to their senders."""
        self._closed = True
        self.network.members.pop(self.process, None)
        for link in self._links.values():
            link.gate.close(f"{self.process} is stopping")

    def queued_bytes(self) -> dict[str, int]:
        queued: dict[str, int] = {}
        for (peer, _), link in self._links.items():
            queued[peer] = queued.get(peer, 0) + link.gate.outstanding
        return queued
