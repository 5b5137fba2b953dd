"""A node: the actors of one process. It places, starts and stops them.

An operating-system process hosts one node; a simulated cluster hosts many nodes on one event loop.
Messages do not pass through the node: actors send through the router, and transports deliver to the
router.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runtime.actors.actor import Actor
from runtime.actors.actor_state import Children, Spec
from runtime.actors.cell import Cell
from runtime.actors.device_sharing import DeviceOpened, DeviceSharing, OpenDevice
from runtime.actors.message_metrics import MessageMetrics
from runtime.actors.metrics import Histogram, Metrics
from runtime.actors.placing import attach, start
from runtime.actors.router import Router
from runtime.actors.routes import Home
from runtime.actors.station_metrics import StationMetrics
from runtime.compute.compute import Compute, Item
from runtime.compute.work_sums import WorkSums
from runtime.data_waits import DATA
from runtime.errors import Refused
from runtime.memory.arena import IN_PLACE_FROM, Arena
from runtime.memory.device_arena import DeviceMemory
from runtime.messages.message import Array, Envelope, PeerLost
from runtime.tracing.tracer import Tracer
from runtime.transport import Endpoints, Transport

LINE = 64  # bytes of a cache line; kernels are fastest on arrays that start on one


class Childless:
    """Refuses to start actors in a process that cannot."""

    def __init__(self, process: str) -> None:
        self._text = f"process {process} takes no part in the start of actors"

    async def spawn(self, parent: str, spec: Spec, links: Sequence[str]) -> None:
        raise Refused(self._text)

    async def end(self, parent: str, name: str) -> None:
        raise Refused(self._text)


class Node:
    """The host of the actors of one process. It reports by calling `on_event(actor, event,
    fields)`, `on_failure(actor, error)` and `on_finished()`."""

    def __init__(self, process: str, incarnation: int, compute: Compute, metrics: Metrics) -> None:
        self.process = process
        self.incarnation = incarnation
        self.compute = compute
        self.metrics = metrics
        self.lead = ""
        self.directory = Path()  # the run directory
        # memory that peers on this host can read; None: no such peers
        self.arena: Arena | None = None
        self.actors: dict[str, Cell] = {}
        self.children: Children = Childless(process)
        self.on_event: Callable[[str, str, dict[str, Any]], None] = lambda actor, event, fields: (
            None
        )
        self.on_failure: Callable[[str, BaseException], None] = lambda actor, error: None
        self.on_finished: Callable[[], None] = lambda: None
        # called when a piece of array work is done
        self.on_work: Callable[[str, str, float], None] = lambda role, label, seconds: None
        self.work = WorkSums()
        compute.on_done = self._worked
        self._message_metrics = MessageMetrics(metrics)
        self.stations = StationMetrics(metrics, self.actors)
        self.router = Router(process, incarnation, self.actors, self._message_metrics)
        self.send = self.router.send
        self.answer = self.router.answer
        self.ask = self.router.ask
        self.deliver = self.router.deliver  # called by the transports
        self.reject = self.router.reject
        self.hands_over = self.router.host_copies.hands_over
        self.to_host = self.router.host_copies.array

    def __repr__(self) -> str:
        return (
            f"<node {self.process}.{self.incarnation}: {len(self.actors)} actors, {self.router!r}>"
        )

    # -- placing and running actors

    def add(self, name: str, role: str, actor: Actor, device: Compute | None = None) -> None:
        """Place an actor here, with `device` as its emulated device if there is one. The actor does
        nothing until `prepare` and `begin`."""
        attach(actor, self, name, role, device)
        if device is not None:
            device.on_done = self._worked
        self._message_metrics.roles[name] = role
        self.actors[name] = Cell(actor, self._failed, self.finished, self.router.reject)

    async def prepare(self, names: Iterable[str]) -> None:
        """Call on_start of the named actors. Raises the first error that an actor raises."""
        for name in names:
            await start(self.actors[name].actor)

    async def reads(self, names: Iterable[str]) -> dict[str, str]:
        """Return the data and files of the named actors that must be the same on other machines.
        They are the results of the actors' methods `reads`, if they have one, called in a
        thread."""
        found: dict[str, str] = {}
        for name in names:
            if (reads := getattr(self.actors[name].actor, "reads", None)) is not None:
                found |= await asyncio.to_thread(reads)
        return found

    def begin(self, names: Iterable[str]) -> None:
        """Open the inboxes of the named actors and start their own work."""
        for name in names:
            self.actors[name].begin()

    async def stop(self, names: Iterable[str] | None = None) -> None:
        """Stop actors (all by default): cancel their work, fail their open asks, call on_stop."""
        chosen = list(self.actors if names is None else names)
        self.router.stopping = self.router.stopping or names is None
        for name in chosen:
            self.actors[name].cancel()
        self.router.stop(chosen)
        for name in chosen:
            await self.actors.pop(name).ended()
        if names is None:
            self.router.rejections.end()

    def trace(self, tracer: Tracer | None) -> None:
        """Record in `tracer` what the actors of this node do from now on. None ends the
        recording."""
        self.router.tracer = tracer
        for cell in self.actors.values():
            cell.tracer = tracer
        for compute in (self.compute, *(cell.actor.device for cell in self.actors.values())):
            compute.step = None if tracer is None else tracer.step

    def memory(self, size: int) -> Array:
        if self.arena is None or size < IN_PLACE_FROM:
            block = np.empty(size + LINE, np.uint8)
            start = -int(block.__array_interface__["data"][0]) % LINE
            return block[start : start + size]
        return self.arena.empty((size,), np.uint8)

    def device_memory(self, memory: DeviceMemory) -> Callable[[int], tuple[Any, int] | None] | None:
        """Share memory of a device; see Actor.device_memory."""
        return None if self.sharing is None else self.sharing.begin(memory)

    async def opened(self, offer: OpenDevice) -> DeviceOpened:
        """Open the memory of a peer on the device of this process; see DeviceSharing.opened."""
        if self.sharing is None:
            return DeviceOpened(readers=())
        cells = self.actors.items()
        readers = tuple(name for name, cell in cells if cell.actor.reads_device)
        return await self.sharing.opened(offer, readers)

    @property
    def sharing(self) -> DeviceSharing | None:
        """The memory that this process shares on its device; None if it shares none."""
        return self.router.host_copies.sharing

    @property
    def memory_range(self) -> tuple[int, int] | None:
        """The range of the arena; see Actor.memory_range."""
        return None if self.arena is None else self.arena.range

    @property
    def memory_file(self) -> str:
        """The file of the arena; see Actor.memory_file."""
        return "" if self.arena is None else self.arena.address.partition(" ")[0]

    def finished(self, name: str) -> None:
        """End the run if the named actor, whose own work is done, is the lead."""
        if name == self.lead:
            self.on_finished()

    def _failed(self, name: str, error: BaseException) -> None:
        if not self.router.stopping:
            self.on_failure(name, error)

    def _worked(self, item: Item, seconds: float) -> None:
        self.work.note(item.actor, item.label, seconds)
        self.stations.computed(item.actor, seconds)
        if self.router.tracer is not None:
            self.router.tracer.computed(item.actor, item.label, item.since, seconds, item.step)
        cell = self.actors.get(item.actor)
        if cell is not None:
            self.on_work(cell.actor.role, item.label, seconds)

    # -- linking

    def connect(
        self,
        process: str,
        incarnation: int,
        endpoints: Endpoints,
        actors: Iterable[str],
        road: Transport,
    ) -> None:
        """Make the actors of a process reachable over the transport `road`."""
        road.connect(process, endpoints)
        self.router.know(actors, Home(process, incarnation, road))
        if self.sharing is not None:
            self.know(self.sharing.helper_of(process), process, incarnation, road)

    def know(self, actor: str, process: str, incarnation: int, road: Transport) -> None:
        """Accept messages of an actor that cannot be reached (yet)."""
        self.router.know([actor], Home(process, incarnation, road))

    def lost(self, process: str, *, returns: bool = False, in_order: bool = False) -> None:
        """Forget a process that has died; see Router.lost. Actors here that handle PeerLost get
        it, behind all messages of the process that have arrived, unless it has ended `in_order`."""
        gone = self.router.lost(process, returns=returns, in_order=in_order)
        if self.sharing is not None:
            self.sharing.forget(process)
            gone = gone - {self.sharing.helper_of(process)}
        if in_order:
            return
        message = PeerLost(actors=tuple(sorted(gone)), returns=returns)
        for name, cell in self.actors.items():
            if gone and PeerLost in cell.actor.handlers:
                envelope = Envelope(message, 0, process, self.incarnation, name, "", 0, -1)
                cell.take(envelope, lambda: None)

    # -- its present state

    def status(self) -> list[dict[str, Any]]:
        """Return one plain dict per actor: what it is doing, the actor it waits for, the seconds it
        has waited for each peer, and the messages it has handled."""
        # an actor with several open asks waits for the peer of the oldest
        waits = {ask.asker: ask.peer for ask in reversed(self.router.asks.values())}
        return [
            {
                "actor": name,
                "role": cell.actor.role,
                "doing": self._computing(name, cell) or cell.doing,
                "waiting_for": waits.get(name, ""),
                "blocked_by": cell.actor._runtime.blocked_by,
                "steps": cell.actor.steps,
                "waited": dict(self._message_metrics.waits.get(name, {})),
                "handled": cell.handled,
                "inbox": len(cell.inbox),
            }
            for name, cell in self.actors.items()
        ]

    def totals(self) -> dict[str, list[int]]:
        return self._message_metrics.totals()

    def received(self) -> dict[str, dict[str, int]]:
        """Return the bytes of arrays received so far, as actor -> sender -> bytes."""
        return self._message_metrics.payload()

    def _computing(self, name: str, cell: Cell) -> str:
        current = cell.actor.device.current
        return current.label if current is not None and current.actor == name else ""

    def phase_seconds(self, actor: str, phase: str) -> Histogram:
        return self._message_metrics.phase(actor, phase)

    def waited_for_data(self, actor: str, seconds: float) -> None:
        self._message_metrics.waited(actor, DATA, seconds)
