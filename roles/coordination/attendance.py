"""The workers that come and go in a run. Decisions only, no messages are sent.

    present --lost--> leaving --abandoned--> away --asks--> joining --joined--> present

A worker that is leaving has died, and its server does not know it yet. The passes of a worker that
is away are given back. A worker in its next life asks for a ticket, and joins with the server's
model before it gets one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Part(Enum):
    """The state of a worker in the run, as in the diagram above."""

    PRESENT = "present"
    LEAVING = "leaving"
    AWAY = "away"
    JOINING = "joining"


class Attendance:
    """The `Part` of each worker that may leave the run and rejoin it."""

    def __init__(self, workers: Iterable[str]) -> None:
        self._parts = dict.fromkeys(workers, Part.PRESENT)
        self._losses = dict.fromkeys(self._parts, 0)
        self._asked = dict.fromkeys(self._parts, 0)  # the newest incarnation that has asked
        self._dead = dict.fromkeys(self._parts, 0)  # the newest one that has died

    def __repr__(self) -> str:
        return f"<{', '.join(f'{name} {part.value}' for name, part in self._parts.items())}>"

    def __contains__(self, worker: str) -> bool:
        """Whether this worker may come and go."""
        return worker in self._parts

    def takes_part(self, worker: str) -> bool:
        """Whether the worker has the model and can get tickets. Workers that never leave can."""
        return self._parts.get(worker, Part.PRESENT) is Part.PRESENT

    def asks(self, worker: str, incarnation: int) -> None:
        """Note that a worker asks for a ticket."""
        if worker in self._parts:
            self._asked[worker] = max(self._asked[worker], incarnation)

    def is_former(self, worker: str, incarnation: int) -> bool:
        """Whether this life of the worker is over."""
        return worker in self._parts and incarnation <= self._dead[worker]

    def lost(self, actors: Iterable[str]) -> list[str]:
        """Note that these actors have died. Returns the workers to abandon now."""
        found = []
        for name in actors:
            if name not in self._parts:
                continue
            self._losses[name] += 1
            self._dead[name] = self._asked[name]
            if self._parts[name] in (Part.PRESENT, Part.JOINING):
                self._parts[name] = Part.LEAVING
                found.append(name)
        return found

    @property
    def missing(self) -> list[str]:
        """The workers that their server must not wait for."""
        return [name for name, part in self._parts.items() if part in (Part.LEAVING, Part.AWAY)]

    def abandoned(self, worker: str) -> bool:
        """Note that the server has abandoned a worker. Returns False if it was not leaving."""
        if self._parts.get(worker) is not Part.LEAVING:
            return False
        self._parts[worker] = Part.AWAY
        return True

    def joins(self, worker: str) -> int:
        """Let a worker that asks for a ticket join, if it is away. Returns a number to be given to
        `joined`; 0 if it need not join now."""
        if self._parts.get(worker) is not Part.AWAY:
            return 0
        self._parts[worker] = Part.JOINING
        return self._losses[worker]

    def joined(self, worker: str, number: int) -> bool:
        """Note that a worker has the server's model. Returns False if it has died again."""
        if self._parts[worker] is not Part.JOINING or self._losses[worker] != number:
            return False
        self._parts[worker] = Part.PRESENT
        return True
