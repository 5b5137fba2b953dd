"""Sums of how long the work of actors took, by actor and label. A run reports them as its service
times while it goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

# the label under which the agent of a process notes processor time: seconds of all its threads
PROCESSOR = "processor"

# actor -> label -> count, seconds, sum of the squares of seconds
Sums = Mapping[str, Mapping[str, Sequence[float]]]


class WorkSums:
    """The sums of one process since it started. `note` takes a third of a microsecond (measured
    once, 2026-11-23)."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], list[float]] = {}
        # the count of each at the last call of `changed`
        self._told: dict[tuple[str, str], float] = {}

    def __repr__(self) -> str:
        return (
            f"<sums of {len(self._sums)} kinds of work, "
            f"{sum(count for count, _, _ in self._sums.values())} pieces>"
        )

    def note(self, actor: str, label: str, seconds: float) -> None:
        """Add a piece of work that took `seconds`."""
        sums = self._sums.get((actor, label))
        if sums is None:
            sums = self._sums[actor, label] = [0, 0.0, 0.0]
        sums[0] += 1
        sums[1] += seconds
        sums[2] += seconds * seconds

    def of(self, actor: str) -> dict[str, list[float]]:
        """Return the sums of one actor by label."""
        return {label: list(sums) for (who, label), sums in self._sums.items() if who == actor}

    def changed(self) -> dict[str, dict[str, list[float]]]:
        """Return the sums, since the process started, of all work that was added to since the last
        call."""
        found: dict[str, dict[str, list[float]]] = {}
        for (actor, label), sums in self._sums.items():
            if self._told.get((actor, label)) != sums[0]:
                self._told[actor, label] = sums[0]
                found.setdefault(actor, {})[label] = list(sums)
        return found


def processor_seconds() -> float:
    """Return the processor time of all threads of this process so far, in seconds."""
    return sum(os.times()[:2])
