"""Processes linked by each kind of road, for the contract tests; a road may also inject faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import InlineCompute
from runtime.memory.arena import Arena
from runtime.messages.message import Array, Message, message
from runtime.transport import Deliver, Limits, Reject, Transport
from runtime.transport.inproc import InprocNetwork, InprocTransport
from runtime.transport.keys import NO_KEYS, Keys
from runtime.transport.sockets import SocketTransport
from runtime.transport.zeromq import key_pair
from tests.helpers.faults import Faults, Shares

ROADS = [
    "inproc",
    "inproc with latency",
    "unix",
    "ipc",
    "tcp",
    "curve",
    "unix and tcp",
    "shared memory",
]
LIMITS = Limits(credit_bytes=1 << 20, message_bytes=8 << 20, control_credit_bytes=1 << 16)


def paired(*names: str) -> dict[str, Keys]:
    """Keys of processes that are all peers of one another."""
    pairs = {name: key_pair() for name in names}
    peers = {name: public for name, (public, _) in pairs.items()}
    return {
        name: Keys("", *pair, {peer: key for peer, key in peers.items() if peer != name})
        for name, pair in pairs.items()
    }


PAIRED = paired("p", "q", "a", "b")


@message
class Note(Message):
    number: int
    text: str


@message
class Load(Message):
    number: int
    blobs: tuple[Array, ...]


class Roads:
    """Makes the transports of the processes to link, with their arenas and their faults."""

    def __init__(self, kind: str, folder: Path, shares: Shares, seed: int = 1) -> None:
        self.kind = kind
        self.folder = folder
        self.arenas: dict[str, Arena] = {}
        self.faults: dict[str, Faults] = {}
        self._shares = shares
        self._seed = seed
        latency = "latency" in kind
        self._network = (
            InprocNetwork(latency=0.001, bytes_per_second=1e9) if latency else InprocNetwork()
        )

    def make(self, name: str, deliver: Deliver, reject: Reject) -> Transport:
        """The transport of a process."""
        faults = self.faults[name] = Faults(deliver, self._shares, seed=self._seed)
        if self.kind.startswith("inproc"):
            return InprocTransport(name, faults, reject, LIMITS, self._network)
        scheme = "ipc" if self.kind == "ipc" else "unix"
        bind: Callable[[str], tuple[str, ...]]
        bind = lambda lane: (f"{scheme}://{self.folder}/{name}.{lane}",)  # noqa: E731
        if self.kind in ("tcp", "curve"):
            bind = lambda lane: (f"{self.kind}://127.0.0.1:*",)  # noqa: E731
        if self.kind == "unix and tcp":
            bind = lambda lane: (f"unix://{self.folder}/{name}.{lane}", "tcp://127.0.0.1:*")  # noqa: E731
        if self.kind == "shared memory":
            self.arenas[name] = Arena(name)
        keys = PAIRED[name] if self.kind == "curve" else NO_KEYS
        arena = self.arenas.get(name)
        return SocketTransport(
            name, faults, reject, LIMITS, incarnation=1, bind=bind, keys=keys, arena=arena
        )

    def array(self, name: str, source: Array) -> Array:
        """A copy of an array as a process makes it for sending: in its shared memory if it has an
        arena.
        """
        if name not in self.arenas:
            return source.copy()
        made = self.arenas[name].empty(source.shape, source.dtype)
        made[...] = source
        return made

    def close(self) -> None:
        """Close the arenas; the transports must be closed before."""
        for arena in self.arenas.values():
            arena.close()


class Nodes:
    """Two linked processes, p and q, with one actor each. An actor's name is its class's name in
    lower case.
    """

    def __init__(self, roads: Roads, at_p: Actor, at_q: Actor) -> None:
        self.roads = roads
        self._actors = (at_p, at_q)
        self.p, self.road_p = self._node("p")
        self.q, self.road_q = self._node("q")

    def _node(self, name: str) -> tuple[Node, Transport]:
        node = Node(name, 1, InlineCompute(), Metrics())
        node.on_failure = lambda actor, error: pytest.fail(f"{actor}: {error!r}")
        road = self.roads.make(name, node.deliver, node.reject)
        node.arena = self.roads.arenas.get(name)
        return node, road

    async def open(self) -> None:
        ends = {"p": await self.road_p.open(), "q": await self.road_q.open()}
        at_p, at_q = (type(actor).__name__.lower() for actor in self._actors)
        self.p.add(at_p, at_p, self._actors[0])
        self.q.add(at_q, at_q, self._actors[1])
        self.p.connect("q", 1, ends["q"], [at_q], self.road_p)
        self.q.connect("p", 1, ends["p"], [at_p], self.road_q)
        for node in (self.p, self.q):
            node.begin(node.actors)

    async def close(self) -> None:
        for node, road in ((self.p, self.road_p), (self.q, self.road_q)):
            await node.stop()
            await road.close()
        self.roads.close()
