"""The mean time of array work, for predictions: from a profile, or from the measurements of a run
so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from runtime.compute.service_times import ServiceTimes
from runtime.errors import ProgramFailed

Sums = Mapping[str, Mapping[str, Sequence[float]]]  # actor -> label -> count, seconds, squares
Rows = Mapping[tuple[str, str], int]  # (actor, label) -> rows of each piece


class Moments(NamedTuple):
    """The moments of one piece of work: mean seconds, and the squared coefficient of variation
    (variance / mean ** 2)."""

    mean: float
    variation: float


class Times:
    """The times of the actors' work by its label, as `mean` and `variation`. Made by `of_profile`
    or `measured`."""

    def __init__(self, of: Callable[[str, str, str, int], Moments | None]) -> None:
        self._of = of

    @staticmethod
    def of_profile(table: Mapping[str, Any], where: str = "service times") -> Times:
        """Take the times of a table like service-times.json (docs/simulation.md). Raises
        ConfigError that names the wrong entry."""
        profile = ServiceTimes(table, 1, where)

        def of(actor: str, role: str, label: str, rows: int) -> Moments | None:
            try:
                return Moments(*profile.of(actor, role, label).moments(rows))
            except ProgramFailed:
                return None

        return Times(of)

    @staticmethod
    def measured(work: Sums, roles: Mapping[str, str], rows: Rows | None = None) -> Times:
        """Take the times from sums over pieces of work: their number, their seconds, and the
        squares of the seconds.

        `roles`: actor -> its role; an actor that has not worked yet is taken to be like the others
        of its role. `rows`: the number of rows of these pieces (`prediction.rows_of`); a piece with
        another number takes time in proportion.
        """
        counted: dict[tuple[str, str], list[float]] = {}
        for actor, labels in work.items():
            for label, sums in labels.items():
                share = 1.0 / (((rows or {}).get((actor, label), 0)) or 1)
                scaled = (sums[0], sums[1] * share, sums[2] * share**2)
                for who in (actor, f"{roles.get(actor, '')}/"):
                    before = counted.setdefault((who, label), [0.0, 0.0, 0.0])
                    counted[who, label] = [a + b for a, b in zip(before, scaled, strict=True)]
        about = {
            (roles.get(actor, ""), label) for (actor, label), many in (rows or {}).items() if many
        }

        def of(actor: str, role: str, label: str, many: int) -> Moments | None:
            found = counted.get((actor, label)) or counted.get((f"{role}/", label))
            if found is None or not found[0]:
                return None
            count, seconds, squares = found
            mean = seconds / count
            spread = max(0.0, squares / count - mean**2)
            share = many if many and (role, label) in about else 1
            return Moments(share * mean, spread / mean**2 if mean else 0.0)

        return Times(of)

    def moments(self, actor: str, role: str, label: str, rows: int = 0) -> Moments | None:
        """The moments of one piece of the actor's work on `rows` rows (0: as many as were
        measured). None if they are not known."""
        return self._of(actor, role, label, rows)

    def mean(self, actor: str, role: str, label: str, rows: int = 0) -> float:
        """Seconds of one such piece; 0 if they are not known."""
        found = self._of(actor, role, label, rows)
        return found.mean if found else 0.0

    def variation(self, actor: str, role: str, label: str) -> float:
        """The squared coefficient of variation; 0 if it is not known."""
        found = self._of(actor, role, label, 0)
        return found.variation if found else 0.0
