"""A whole cluster on one event loop: the same actors and nodes, in-process roads, real or virtual time.

On the virtual clock (`run_virtual(simulate(...))`) links have a latency and a rate, devices have service times, and
everything repeats itself exactly: tests, theory and what-if questions need no processes and no waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.actor import Actor
from runtime.compute import InlineCompute
from runtime.metrics import Metrics
from runtime.node import Node
from runtime.topology import Placement
from runtime.transport import Endpoints, Limits
from runtime.transport.inproc import InprocNetwork, InprocTransport

ServiceTime = Callable[[str, str], float]  # (actor, label of the array work) -> seconds


@dataclass
class Journal:
    """What happened: (loop time, actor, event, fields), in order."""

    entries: list[tuple[float, str, str, dict[str, Any]]] = field(default_factory=list)

    def of(self, event: str) -> list[dict[str, Any]]:
        """The fields of every event of one kind."""
        return [fields for _, _, name, fields in self.entries if name == event]


async def simulate(
    placement: Placement,
    roles: Mapping[str, Callable[..., Actor]],
    *,
    network: InprocNetwork | None = None,
    limits: Limits | None = None,
    service_time: ServiceTime | None = None,
    directory: Path = Path(),
    prepared: Callable[[dict[str, Actor]], None] = lambda actors: None,
) -> Journal:
    """Run a placement on this event loop until its lead actor ends; the first failure comes through.

    `prepared(actors)` is called when every actor is built and about to begin: tests look inside from there.
    """
    cluster = _Cluster(placement, network or InprocNetwork(), limits or Limits(), service_time)
    for node, _ in cluster.nodes.values():
        node.directory = directory
    try:
        return await cluster.run(roles, prepared)
    finally:
        await cluster.close()


class _Cluster:
    def __init__(
        self, placement: Placement, network: InprocNetwork, limits: Limits, service_time: ServiceTime | None
    ) -> None:
        self.placement = placement
        self.journal = Journal()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.nodes: dict[str, tuple[Node, InprocTransport]] = {}
        for spec in placement.processes:
            node = Node(spec.name, 1, InlineCompute(service_time), Metrics())
            node.lead = placement.topology.lead
            node.on_event, node.on_failure, node.on_finished = self._event, self._failed, self._finished
            road = InprocTransport(spec.name, node.deliver, node.reject, limits, network)
            self.nodes[spec.name] = (node, road)

    async def run(
        self, roles: Mapping[str, Callable[..., Actor]], prepared: Callable[[dict[str, Actor]], None]
    ) -> Journal:
        specs = {actor.name: actor for actor in self.placement.topology.actors}
        nowhere = Endpoints("", "")
        for process in self.placement.processes:
            node, road = self.nodes[process.name]
            await road.open()
            for peer, actors in self.placement.neighbours(process.name).items():
                node.connect(peer, 1, nowhere, actors, road)
            for name in process.actors:
                node.add(name, specs[name].role, roles[specs[name].role](**specs[name].options))
        for process in self.placement.processes:
            await self.nodes[process.name][0].prepare(process.actors)
        prepared({name: hosted.actor for node, _ in self.nodes.values() for name, hosted in node.actors.items()})
        for process in self.placement.processes:
            self.nodes[process.name][0].begin(process.actors)
        await self.over
        return self.journal

    async def close(self) -> None:
        for node, road in self.nodes.values():
            await node.stop()
            await road.close()

    def _event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        self.journal.entries.append((asyncio.get_running_loop().time(), actor, event, fields))

    def _failed(self, actor: str, error: BaseException) -> None:
        if not self.over.done():
            self.over.set_exception(error)

    def _finished(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
