"""A simulated cluster: the same actors and nodes, with in-process transports on one event loop, in
real or virtual time.

On the virtual clock (`run_virtual(simulate(...))`) links have a latency and a rate, devices have
service times, and every run repeats exactly. So tests, theory and what-if questions need no
processes and no waiting.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.actors.actor import Actor
from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import Compute, InlineCompute
from runtime.compute.emulated_device import Turns, device_of
from runtime.compute.service_times import Recorder
from runtime.plan.growth import Growth, Place
from runtime.plan.program import made_of
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec
from runtime.simulation.growing import Growing
from runtime.transport import Endpoints, Limits
from runtime.transport.inproc import InprocNetwork, InprocTransport

Roles = Mapping[str, Callable[..., Actor]]
Make = Callable[[ActorSpec], Actor]
ServiceTime = Callable[[str, str], float]  # (actor, label of the array work) -> seconds
Watch = Callable[[str, str, dict[str, Any]], None]  # (actor, event, fields)

FIRST = 1  # the incarnation of a process in its first life
NOWHERE = Endpoints()  # on one loop, transports need no addresses


@dataclass
class Journal:
    """The events of a run: (loop time, actor, event, fields), in order."""

    entries: list[tuple[float, str, str, dict[str, Any]]] = field(default_factory=list)

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the fields of every event of one kind."""
        return [fields for _, _, name, fields in self.entries if name == event]


async def simulate(
    placement: Placement,
    roles: Roles,
    *,
    network: InprocNetwork | None = None,
    limits: Limits | None = None,
    service_time: ServiceTime | None = None,
    directory: Path = Path(),
    prepared: Callable[[dict[str, Actor]], None] = lambda actors: None,
) -> Journal:
    """Run a placement on this event loop until its lead actor ends. Raises the first failure.

    `prepared(actors)` is called when every actor is made and about to begin, so that tests can look
    inside. `service_time` is for actors without an emulated device.
    """
    simulation = Simulation(
        placement, network=network, limits=limits, service_time=service_time, directory=directory
    )
    await simulation.run(lambda spec: made_of(roles, spec), prepared)
    return simulation.journal


def beside_its_parent(actor: ActorSpec, linked: Sequence[str], placement: Placement) -> ProcessSpec:
    """Place an actor that another one starts on the machine of that one."""
    home = placement.process_of()[linked[0]]
    machine = next(spec.machine for spec in placement.processes if spec.name == home)
    return ProcessSpec(actor.name, machine, (actor.name,))


class Simulation:
    """A placement that runs on this event loop.

    `watch` is called for every event. `recorder` gets the durations of array work, and `on_work` is
    called after each piece. `compute` makes the device of each process, by default an InlineCompute
    with `service_time`. `place` chooses the process of an actor that another one starts.
    """

    make: Make  # from `prepare` on

    def __init__(
        self,
        placement: Placement,
        *,
        network: InprocNetwork | None = None,
        limits: Limits | None = None,
        service_time: ServiceTime | None = None,
        directory: Path = Path(),
        watch: Watch = lambda actor, event, fields: None,
        recorder: Recorder | None = None,
        compute: Callable[[], Compute] | None = None,
        place: Place = beside_its_parent,
    ) -> None:
        self._growth = Growth(placement, place)
        self._growing = Growing(self, self._growth)
        self.vocabulary: dict[str, Collection[type[Any]]] = {}
        self.watch = watch
        self.on_work: Callable[[], None] = lambda: None
        self.journal = Journal()
        self.failed = ""  # the actor whose failure ended the run
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.nodes: dict[str, tuple[Node, InprocTransport]] = {}
        self._recorder = recorder
        self._limits = limits or Limits()
        self._outside = InprocNetwork()
        self._outsiders: list[str] = []
        self._dead: set[str] = set()  # processes that were killed
        # process -> its transports to actors outside of the placement
        self._roads: defaultdict[str, list[InprocTransport]] = defaultdict(list)
        self._network = network or InprocNetwork()
        self._directory = directory
        self._compute = compute or (lambda: InlineCompute(service_time))
        for spec in placement.processes:
            self.host(spec)

    @property
    def placement(self) -> Placement:
        """The present actors of the run and their processes."""
        return self._growth.placement

    def host(self, spec: ProcessSpec, life: int = FIRST) -> Node:
        """Make the node of a process, without actors and links."""
        node = Node(spec.name, life, self._compute(), Metrics())
        node.lead = self.placement.topology.lead
        node.directory = self._directory
        node.children = self._growing
        node.on_event = self.event
        node.on_failure = self.fail
        node.on_finished = self._finished
        node.on_work = self._worked
        node.router.vocabulary = self.vocabulary
        road = InprocTransport(spec.name, node.deliver, node.reject, self._limits, self._network)
        self.nodes[spec.name] = (node, road)
        return node

    def __repr__(self) -> str:
        return f"<simulation of {len(self.nodes)} processes, {len(self.journal.entries)} events>"

    async def run(
        self, make: Make, prepared: Callable[[dict[str, Actor]], None] = lambda actors: None
    ) -> None:
        """Run from making the actors to the lead's end. Raises the first failure."""
        try:
            await self.prepare(make)
            prepared(
                {
                    name: cell.actor
                    for node, _ in self.nodes.values()
                    for name, cell in node.actors.items()
                }
            )
            self.begin()
            await self.over
        finally:
            await self.close()

    async def join(self, name: str, actor: Actor) -> None:
        """Add an actor that is in no process of the placement. Messages to it and from it take no
        time."""
        outsider = Node(name, FIRST, InlineCompute(), Metrics())
        road = self._road(outsider)
        await road.open()
        self.nodes[name] = (outsider, road)
        for process in self.placement.processes:
            await self._show(process, name)
        self._outsiders.append(name)
        outsider.add(name, name, actor)
        outsider.begin([name])

    async def _show(self, process: ProcessSpec, outsider: str) -> None:
        """Link a process of the placement and an actor outside of it."""
        node, _ = self.nodes[process.name]
        back = self._road(node)
        await back.open()
        node.connect(outsider, FIRST, NOWHERE, [outsider], back)
        other, road = self.nodes[outsider]
        other.connect(process.name, node.incarnation, NOWHERE, process.actors, road)

    async def link(self, process: ProcessSpec) -> None:
        """Link a process that was started while the run goes on, in both directions."""
        node, road = self.nodes[process.name]
        await road.open()
        for peer, actors in self.placement.neighbours(process.name).items():
            other, back = self.nodes[peer]
            node.connect(peer, other.incarnation, NOWHERE, actors, road)
            other.connect(process.name, node.incarnation, NOWHERE, process.actors, back)
        for outsider in self._outsiders:
            await self._show(process, outsider)

    async def remove(self, process: str) -> None:
        """Stop the actors of a process, and forget it."""
        node, road = self.nodes.pop(process)
        await self._closed(node, road)
        for other, _ in self.nodes.values():
            other.lost(process, in_order=True)
        self.vocabulary.pop(process, None)  # its actor has the same name

    async def _closed(self, node: Node, road: InprocTransport) -> None:
        await node.stop()
        node.compute.close()
        for each in (road, *self._roads.pop(node.process, ())):
            await each.close()

    async def prepare(self, make: Make) -> None:
        """Make the actors, link them and call their on_start. Raises the first failure."""
        self.make = make
        for process in self.placement.processes:
            node, road = self.nodes[process.name]
            await road.open()
            for peer, actors in self.placement.neighbours(process.name).items():
                node.connect(peer, FIRST, NOWHERE, actors, road)
            self._add(process, make)
        cells = {
            name: cell for node, _ in self.nodes.values() for name, cell in node.actors.items()
        }
        self.vocabulary |= {name: cell.actor.handlers for name, cell in cells.items()}
        for process in self.placement.processes:
            for self.failed in process.actors:
                await self.nodes[process.name][0].prepare([self.failed])
        self.failed = ""

    def _add(self, process: ProcessSpec, make: Make) -> None:
        """Make the actors of a process and place them in it."""
        node, _ = self.nodes[process.name]
        specs = {actor.name: actor for actor in self.placement.topology.actors}
        turns = Turns()
        for spec in map(specs.__getitem__, process.actors):
            self.failed = spec.name
            device = device_of(spec.role, spec.emulated, turns)
            node.add(spec.name, spec.role, make(spec), device)

    async def kill(self, process: str, *, returns: bool) -> None:
        """Let a process die at once: messages on their way to it and from it are lost, and its
        peers learn that it is gone, and whether it `returns`."""
        node, road = self.nodes[process]
        self._dead.add(process)
        await road.close()
        await node.stop()
        node.compute.close()
        for peer in self._living_peers(process):
            self.nodes[peer][0].lost(process, returns=returns)

    def _living_peers(self, process: str) -> list[str]:
        near = self.placement.neighbours(process)
        return [peer for peer in near if peer != process and peer not in self._dead]

    async def restart(self, process: str, make: Make) -> None:
        """Start a process that was killed in its next life, while the others run."""
        former, _ = self.nodes[process]
        (spec,) = (spec for spec in self.placement.processes if spec.name == process)
        node = self.host(spec, former.incarnation + 1)
        _, road = self.nodes[process]
        await road.open()
        self._dead.discard(process)
        peers = self._living_peers(process)
        actors = self.placement.neighbours(process)
        for peer in (*peers, *({process} & actors.keys())):
            life = self.nodes[peer][0].incarnation
            node.connect(peer, life, NOWHERE, actors[peer], road)
        self._add(spec, make)
        await node.prepare(spec.actors)
        self.failed = ""
        for peer in peers:
            other, back = self.nodes[peer]
            other.connect(process, node.incarnation, NOWHERE, spec.actors, back)
        node.begin(spec.actors)

    def begin(self) -> None:
        """Open the inboxes of all actors."""
        for process in self.placement.processes:
            self.nodes[process.name][0].begin(process.actors)

    async def close(self) -> None:
        """Stop the actors."""
        for node, road in list(self.nodes.values()):
            await self._closed(node, road)

    def end(self) -> None:
        """End the run at once."""
        self._finished()

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return for each actor what it does now, see Node.status."""
        nodes = [
            (process.name, self.nodes[process.name][0]) for process in self.placement.processes
        ]
        return {
            status["actor"]: {**status, "process": name}
            for name, node in nodes
            for status in node.status()
        }

    def work(self) -> dict[str, dict[str, list[float]]]:
        """Return the sums of work that has grown since the last call, see WorkSums.changed."""
        return {
            actor: sums
            for node, _ in self.nodes.values()
            for actor, sums in node.work.changed().items()
        }

    def received(self) -> dict[str, dict[str, int]]:
        """Return the bytes that all actors have received, see Node.received."""
        return {
            actor: sums
            for node, _ in self.nodes.values()
            for actor, sums in node.received().items()
        }

    def _road(self, node: Node) -> InprocTransport:
        """Make a transport between one process and actors outside of the placement."""
        road = InprocTransport(node.process, node.deliver, node.reject, self._limits, self._outside)
        self._roads[node.process].append(road)
        return road

    def _worked(self, role: str, label: str, seconds: float) -> None:
        if self._recorder is not None:
            self._recorder.note(role, label, seconds)
        self.on_work()

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Note an event."""
        self.journal.entries.append((asyncio.get_running_loop().time(), actor, event, fields))
        self.watch(actor, event, fields)

    def fail(self, actor: str, error: BaseException) -> None:
        """End the run with the failure of an actor."""
        if not self.over.done():
            self.failed = actor
            self.over.set_exception(error)

    def _finished(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
