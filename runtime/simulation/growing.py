"""The growth of a simulated run: actors start and end others on one event loop. The decisions are
those of `plan/growth.py`, as in a run with processes. Starting and ending take no virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from runtime.actors.actor import Actor
from runtime.actors.actor_state import Spec
from runtime.actors.node import Node
from runtime.compute.emulated_device import Turns, device_of
from runtime.errors import ConfigError, Refused
from runtime.plan.growth import ENDED, SPAWNED, Growth
from runtime.plan.peers import refuse_unlinked
from runtime.plan.program import described_child
from runtime.plan.topology import SUPERVISOR, ActorSpec, ProcessSpec


class Ground(Protocol):
    """The simulation in which actors are started and ended."""

    make: Callable[[ActorSpec], Actor]
    vocabulary: dict[str, Collection[type[Any]]]

    def host(self, spec: ProcessSpec, life: int) -> Node:
        """Make the node of a process, without actors and links."""
        ...

    async def link(self, process: ProcessSpec) -> None:
        """Link a process and its neighbours."""

    async def remove(self, process: str) -> None:
        """Stop the actors of a process, and forget it."""

    def fail(self, actor: str, error: BaseException) -> None:
        """End the run with the failure of an actor."""

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Note an event."""


class Growing:
    """Starts and ends actors for all actors of a simulation."""

    def __init__(self, simulation: Ground, growth: Growth) -> None:
        self._simulation = simulation
        self._growth = growth
        self._lives: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<growing: {self._growth!r}>"

    async def spawn(self, parent: str, spec: Spec, links: Sequence[str]) -> None:
        """Start an actor; see Actor.spawn."""
        try:
            child = described_child(spec, links)
            actor = self._simulation.make(child)
            refuse_unlinked(type(actor), child, {parent, *links})
            process = self._growth.start(parent, child, links)
        except (ConfigError, Refused) as error:
            name = getattr(spec, "name", spec)
            raise Refused(f"{parent} cannot start '{name}': {error}") from None
        await self._begin(child, actor, process)
        fields = {"name": child.name, "role": child.role, "by": parent, "machine": process.machine}
        self._simulation.event(SUPERVISOR, SPAWNED, fields)

    async def _begin(self, child: ActorSpec, actor: Actor, process: ProcessSpec) -> None:
        simulation = self._simulation
        name = child.name
        self._lives[name] += 1
        node = simulation.host(process, 1 + self._lives[name])
        await simulation.link(process)
        node.add(name, child.role, actor, device_of(child.role, child.emulated, Turns()))
        simulation.vocabulary[name] = actor.handlers
        try:
            await node.prepare([name])
        except Exception as error:  # noqa: BLE001  # it ends the run, as any actor's failure does
            simulation.fail(name, error)
            await asyncio.get_running_loop().create_future()  # until the parent is stopped
        node.begin([name])
        self._growth.began(name)

    async def end(self, parent: str, name: str) -> None:
        """End an actor; see Actor.end."""
        try:
            order = self._growth.end(parent, name)
        except Refused as error:
            raise Refused(f"{parent} cannot end '{name}': {error}") from None
        for each in order:
            await self._simulation.remove(each)
            self._growth.ended(each)
            self._simulation.event(SUPERVISOR, ENDED, {"name": each, "by": parent})
