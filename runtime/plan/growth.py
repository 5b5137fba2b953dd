"""The growth of a run: the actors that other actors start and end while it goes on. These are plain
decisions. `cluster/supervising/growing.py` acts on them in processes, and `simulation/growing.py`
on one loop.

Each started actor has a process of its own, with its name. The actor that started it is its parent.
Only the parent may end it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

from runtime.errors import Refused
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec
from runtime.suggest import near_hint

SPAWNED = "spawned"  # events of the supervisor
ENDED = "actor ended"
# (actor, its parent and the other actors that it is linked with, the placement of all others) ->
# the process of the actor
Place = Callable[[ActorSpec, Sequence[str], Placement], ProcessSpec]


class Growth:
    """The present placement of a run, and the parents of the actors that were started. `starting`
    are the started actors that have not begun. `place` chooses the process of a new actor; it may
    raise ConfigError."""

    def __init__(self, placement: Placement, place: Place) -> None:
        self.placement = placement
        self._place = place
        self._parents: dict[str, str] = {}
        self.starting: set[str] = set()
        self._ending: set[str] = set()
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        moving = f"{len(self.starting)} starting, {len(self._ending)} ending"
        return f"<growth: {len(self._parents)} started actors, {moving}>"

    def start(self, parent: str, actor: ActorSpec, links: Sequence[str]) -> ProcessSpec:
        """Add an actor to the placement, and return its process. Raises Refused if its name is in
        use or a linked actor does not exist, and ConfigError if it cannot be placed."""
        topology = self.placement.topology
        names = [each.name for each in topology.actors]
        used = {*names, *(spec.name for spec in self.placement.processes)}
        if not actor.name:
            raise Refused("its name is empty")
        if actor.name in used:
            raise Refused("an actor or a process of this run has this name")
        for other in links:
            if other not in names:
                raise Refused(f"links: no actor is called '{other}'{near_hint(other, names)}")
        linked = tuple(dict.fromkeys((parent, *links)))
        for other in linked:
            if other in self._ending or other in self.starting:
                state = "is ending" if other in self._ending else "has not begun yet"
                raise Refused(f"actor '{other}' {state}")
        pairs = ((end, actor.name) for end in linked)
        grown = dataclasses.replace(
            topology, actors=(*topology.actors, actor), links=(*topology.links, *pairs)
        )
        found = self._place(actor, linked, self.placement)
        spec = dataclasses.replace(found, number=next(self._numbers))
        self.placement = Placement(grown, (*self.placement.processes, spec))
        self._parents[actor.name] = parent
        self.starting.add(actor.name)
        return spec

    def began(self, name: str) -> None:
        """Note that a started actor has begun."""
        self.starting.discard(name)

    def end(self, parent: str, name: str) -> list[str]:
        """Return the actors to end when `parent` ends an actor: those that it has started, directly
        or through others, and at last the actor itself. Raises Refused if `parent` has not started
        it, or if one of them has not begun or is ending."""
        names = [each.name for each in self.placement.topology.actors]
        if name not in names:
            near = near_hint(name, self._children(parent))
            raise Refused(f"no actor of this run is called '{name}' (any more){near}")
        if name not in self._parents:
            raise Refused("it belongs to the plan of the run, which no actor has started")
        if self._parents[name] != parent:
            raise Refused(f"only '{self._parents[name]}', which has started it, can end it")
        order = [name]
        for each in order:
            order += self._children(each)
        for each in order:
            if each in self.starting:
                raise Refused(f"actor '{each}' has not begun yet")
            if each in self._ending:
                raise Refused(f"actor '{each}' is ending already")
        self._ending |= {*order}
        return order[::-1]

    def ended(self, name: str) -> None:
        """Remove an actor that has ended, or could not be started."""
        topology = self.placement.topology
        shrunk = dataclasses.replace(
            topology,
            actors=tuple(actor for actor in topology.actors if actor.name != name),
            links=tuple(link for link in topology.links if name not in link),
        )
        left = tuple(spec for spec in self.placement.processes if spec.name != name)
        self.placement = Placement(shrunk, left)
        self._parents.pop(name, None)
        self.starting.discard(name)
        self._ending.discard(name)

    def _children(self, parent: str) -> list[str]:
        return [name for name, other in self._parents.items() if other == parent]
