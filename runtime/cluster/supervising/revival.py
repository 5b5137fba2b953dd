"""The processes that are started again when they die, while their run goes on. This is a plain
decision, on which the supervisor acts.

A process is started again if all its actors allow it, by `restarts` in their options: the number of
deaths that each may survive. The process of the lead actor is never started again. A process that
fails before it runs would fail again, so it stays away; one that is killed by then has not failed.

Without a process that stays away the run ends, unless all actors of the process are optional and
another optional process is left.
"""

from __future__ import annotations

from runtime.plan.topology import Placement


class Revival:
    """The number of times that each process of a placement may still be started again, and the
    optional processes that are left."""

    def __init__(self, placement: Placement) -> None:
        specs = {actor.name: actor for actor in placement.topology.actors}
        self._left = {
            process.name: 0
            if placement.topology.lead in process.actors
            else min((specs[actor].restarts for actor in process.actors), default=0)
            for process in placement.processes
        }
        self._may = frozenset(
            process.name
            for process in placement.processes
            if all(specs[actor].optional for actor in process.actors)
        )
        self._optional = {*self._may}

    def __repr__(self) -> str:
        return f"<revival: {sum(left > 0 for left in self._left.values())} processes may die>"

    def allows(self, process: str) -> bool:
        """Whether the process may be started again after a death."""
        return self._left[process] > 0

    def add(self, process: str, restarts: int) -> None:
        """Add a process that was started while the run goes on."""
        self._left[process] = restarts

    def is_optional(self, process: str) -> bool:
        """Whether the run can go on without the process while others are there in its place."""
        return process in self._may

    def is_away(self, process: str) -> bool:
        """Whether the run goes on without the process."""
        return process in self._may - self._optional

    def may_stay_away(self, *processes: str) -> bool:
        """Whether the run can go on without these processes."""
        return self._optional > set(processes)

    def is_last(self, process: str) -> bool:
        """Whether the process is the only optional one that is left."""
        return self._optional == {process}

    def stays_away(self, process: str) -> None:
        """Note that the run goes on without the process."""
        self._optional.discard(process)

    def comes_back(self, process: str) -> None:
        """Note that an optional process that has stayed away is started again."""
        self._optional.add(process)

    def take(self, process: str) -> None:
        """Note that the process is started again."""
        self._left[process] -= 1
