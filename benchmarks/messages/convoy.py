"""Convoy as `benchmarks.messages` measures it: a node with one actor at each end, and the road
between two processes.

The other systems are in `peers`, the bars in `messages`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import InlineCompute
from runtime.memory.arena import Arena
from runtime.messages import wire
from runtime.messages.message import Array, Envelope, Message, message
from runtime.transport import Endpoints, Limits
from runtime.transport.keys import NO_KEYS, Keys
from runtime.transport.sockets import SocketTransport

TICK = 0.005  # seconds between two heartbeats of the loop


@message
class Ping(Message):
    number: int


@message
class Pong(Message):
    number: int


@message
class Tick(Message):
    number: int


@message
class Load(Message):
    read: bool
    blob: Array


@message
class Took(Message):
    arrived: int  # nanoseconds on the host's clock: when the handler had the array
    read: int  # when it had also read the array; 0 if it did not
    once: float  # seconds of the same reading of the server's own array


@message
class Bulk(Message):
    blob: Array


@message
class Want(Message):
    size: int  # bytes of the answer
    blob: Array


class Caller(Actor):
    """The actor at end `a`, which measures. It is driven from outside."""


class Server(Actor):
    """The actor at end `b`, which answers, counts and reads."""

    def __init__(self) -> None:
        self.ticks = 0
        self.bulk = 0
        self.enough = asyncio.Event()
        self.wanted = 0
        self.own = np.ones(0, np.float32)

    async def on_ping(self, said: Ping, envelope: Envelope) -> None:
        await self.reply(envelope, Pong(number=said.number))

    async def on_tick(self, said: Tick, envelope: Envelope) -> None:
        self.ticks += 1
        if self.ticks == self.wanted:
            self.enough.set()

    async def on_load(self, said: Load, envelope: Envelope) -> None:
        arrived = perf_counter_ns()
        if not said.read:
            await self.reply(envelope, Took(arrived=arrived, read=0, once=0.0))
            return
        said.blob.max()
        read = perf_counter_ns()
        if self.own.nbytes != said.blob.nbytes:
            self.own = np.ones(said.blob.shape, np.float32)
        begun = perf_counter()
        self.own.max()
        await self.reply(envelope, Took(arrived=arrived, read=read, once=perf_counter() - begun))

    async def on_want(self, said: Want, envelope: Envelope) -> None:
        await self.reply(envelope, Bulk(blob=np.ones(said.size // 4, np.float32)))

    async def on_bulk(self, said: Bulk, envelope: Envelope) -> None:
        self.bulk += 1
        if envelope.reply_to:
            await self.reply(envelope, Pong(number=self.bulk))


class Convoy:
    """One end: process `a` hosts the caller, `b` the server."""

    def __init__(
        self,
        name: str,
        bind: dict[str, str],
        *,
        shared: bool = False,
        ready: int = 0,
        keys: dict[str, str] | None = None,
    ) -> None:
        """`bind[name]` is an address with {lane} in it. `ready` messages may be under way; 0 is the
        usual limit. `keys[name]` is the text of its Keys."""
        self._keys = Keys.of(keys[name].encode()) if keys else NO_KEYS
        self._name = name
        self._bind = bind
        self._shared = shared
        self._ready = ready

    async def open(self) -> Any:
        """Place the actor and listen. Returns the endpoints."""
        self.node = Node(self._name, 1, InlineCompute(), Metrics())
        self.node.on_failure = lambda actor, error: sys.exit(f"{actor}: {error!r}")
        self.node.arena = Arena(self._name) if self._shared else None
        limits = Limits(control_credit_bytes=self._ready * 1024) if self._ready else Limits()
        self.road = SocketTransport(
            self._name,
            self.node.deliver,
            self.node.reject,
            limits,
            incarnation=1,
            bind=lambda lane: (self._bind[self._name].format(lane=lane),),
            arena=self.node.arena,
            keys=self._keys,
        )
        self.caller = Caller()
        self.server = Server()
        actor: Actor = self.caller if self._name == "a" else self.server
        self.node.add(type(actor).__name__.lower(), "benchmark", actor)
        found = await self.road.open()
        return asdict(found)

    async def connect(self, other: Any) -> None:
        """Link the two nodes."""
        peer, actor = ("b", "server") if self._name == "a" else ("a", "caller")
        self.node.connect(peer, 1, Endpoints.of(other), [actor], self.road)
        await self.node.prepare(self.node.actors)
        self.node.begin(self.node.actors)
        if self._name == "a":
            await self.caller.ask("server", Ping(number=0), Pong)

    async def close(self) -> None:
        """Stop the node."""
        await self.node.stop()
        await self.road.close()
        if self.node.arena is not None:
            self.node.arena.close()

    async def payload(self) -> int:
        """The bytes of a small message."""
        return wire.size_of(wire.encode(Envelope(Tick(number=1000), 1000, "caller", 1, "server")))

    async def round_trips(self, count: int) -> float:
        """The median seconds of an ask."""
        taken = []
        for number in range(count):
            since = perf_counter()
            await self.caller.ask("server", Ping(number=number), Pong)
            taken.append(perf_counter() - since)
        return median(taken)

    async def one_way(self, count: int) -> float:
        """Messages per second, from the first tell until the last one was handled."""
        since = perf_counter()
        for number in range(count):
            await self.caller.tell("server", Tick(number=number))
        await self.caller.ask("server", Ping(number=0), Pong)
        return count / (perf_counter() - since)

    async def arrays(self, size: int, count: int, read: bool) -> dict[str, float]:
        """Send `count` arrays of `size` bytes, each in new memory that is freed before the next.

        Returns medians of the seconds from the moment when the array is complete until the handler
        has it, until the handler has read it, and of one such reading alone.
        """
        found: dict[str, list[float]] = {"arrive": [], "read": [], "once": []}
        for number in range(count):
            array = self.node.memory(size).view(np.float32)
            array.fill(number)
            complete = perf_counter_ns()
            took = await self.caller.ask("server", Load(read=read, blob=array), Took)
            found["arrive"].append((took.arrived - complete) / 1e9)
            found["read"].append((took.read - complete) / 1e9)
            found["once"].append(took.once)
            del array
        return {name: median(seconds) for name, seconds in found.items()}

    async def stream(self, size: int, count: int) -> float:
        """Bytes per second of `count` arrays of `size` bytes, one after another, until the last one
        was handled."""
        array = np.ones(size // 4, np.float32)
        since = perf_counter()
        for _ in range(count - 1):
            await self.caller.tell("server", Bulk(blob=array))
        await self.caller.ask("server", Bulk(blob=array), Pong)
        return size * count / (perf_counter() - since)

    async def iteration(self, layers: list[int], activations: int) -> float:
        """The seconds of a worker's exchange: it pulls `layers` of so many bytes, one after the
        other, sends activations and gets as many bytes of gradients for them, and sends the
        gradients of all layers, last first."""
        made = {size: np.ones(size // 4, np.float32) for size in (0, activations, *layers)}
        since = perf_counter()
        for size in layers:
            await self.caller.ask("server", Want(size=size, blob=made[0]), Bulk)
        await self.caller.ask("server", Want(size=activations, blob=made[activations]), Bulk)
        for size in reversed(layers):
            await self.caller.tell("server", Bulk(blob=made[size]))
        await self.caller.ask("server", Want(size=0, blob=made[0]), Bulk)
        return perf_counter() - since

    async def flood(self, count: int) -> int:
        """Send that many ticks. Returns after one second."""
        for number in range(count):
            await self.caller.tell("server", Tick(number=number))
        # the other process holds its loop; meanwhile its sockets take in everything
        await asyncio.sleep(1.0)
        return count

    async def expect(self, count: int) -> int:
        """Expect `count` ticks. Called before the first one is sent."""
        self.server.wanted = self.server.ticks + count
        self.server.enough.clear()
        return count

    async def hold(self) -> float:
        """Hold this loop until a line comes on standard input, then handle the expected ticks.
        Returns the largest gap of the loop's heartbeat."""
        return await longest_gap(self.server.enough, sys.stdin.readline)


async def longest_gap(enough: asyncio.Event, hold: Callable[[], object]) -> float:
    """The largest time between two heartbeats, which are TICK apart if the loop is free, from the
    end of `hold` until `enough` is set."""
    worst = 0.0
    hold()
    before = perf_counter()
    while not enough.is_set():
        await asyncio.sleep(TICK)
        worst = max(worst, perf_counter() - before)
        before = perf_counter()
    return worst
