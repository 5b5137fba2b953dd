"""The processes that are started again when they die, while their run goes on. This is a plain
decision, on which the supervisor acts.

A process is started again if all its actors allow it, by `restarts` in their options: the number of
deaths that each may survive. The process of the lead actor is never started again. A process that
dies before it runs would die again, so its death ends the run.
"""

from __future__ import annotations

from runtime.plan.topology import Placement


class Revival:
    """The number of times that each process of a placement may still be started again."""

    def __init__(self, placement: Placement) -> None:
        specs = {actor.name: actor for actor in placement.topology.actors}
        self._left = {
            process.name: 0
            if placement.topology.lead in process.actors
            else min((specs[actor].restarts for actor in process.actors), default=0)
            for process in placement.processes
        }

    def __repr__(self) -> str:
        return f"<revival: {sum(left > 0 for left in self._left.values())} processes may die>"

    def allows(self, process: str) -> bool:
        """Whether the process may be started again after a death."""
        return self._left[process] > 0

    def add(self, process: str, restarts: int) -> None:
        """Add a process that was started while the run goes on."""
        self._left[process] = restarts

    def take(self, process: str) -> None:
        """Note that the process is started again."""
        self._left[process] -= 1
