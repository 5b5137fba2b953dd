"""The programs of a net: parts of a stage whose kernels run again without Python between them.

The arrays of a net with memory "reused" stay where they are, and so do parameters that are updated
in place. A part of a stage, forward or backward, then starts the same kernels with the same
arguments in every pass. The first pass is computed plainly, the second must find and leave all
arrays at the same places, the third is recorded by the backend (`Backend.program_of`), and the
others run the program. A pass that finds an array elsewhere is computed plainly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Generic, Protocol, TypeVar

from ops import Array, Backend, Program

MOST_CHANGES = 8  # passes that may find arrays elsewhere, before a part's program is given up


class Results(Protocol):
    """What a part of a pass leaves."""

    @property
    def arrays(self) -> list[Array | None]:
        """All arrays, in a fixed order."""


Outcome = TypeVar("Outcome", bound=Results)


@dataclass
class Kept(Generic[Outcome]):
    """A part as the last passes found it: the arrays that it read, and those `given` from outside,
    which are not kept alive."""

    given: list[weakref.ref[Any]]
    arrays: Sequence[Array | None]
    results: Outcome
    steady: bool = False
    changes: int = 0
    program: Program | None = None


class Programs:
    """The programs of one net."""

    def __init__(self, ops: Backend) -> None:
        self._ops = ops
        self._kept: dict[Hashable, Kept[Any]] = {}
        self.runs = 0  # parts that programs computed

    def __repr__(self) -> str:
        return f"<{self.count} programs>"

    @property
    def count(self) -> int:
        """The number of programs."""
        return sum(kept.program is not None for kept in self._kept.values())

    def forget(self) -> None:
        """Forget all programs, because arrays have moved."""
        self._kept = {}

    def compute(
        self,
        key: Hashable,
        given: Sequence[Any],
        arrays: Sequence[Array | None],
        work: Callable[[], Outcome],
    ) -> Outcome:
        """Return the results of a part, from its program or from `work`. `given`: the parameters
        and the destinations of gradients. `arrays`: the net's own arrays that it reads."""
        kept: Kept[Outcome] | None = self._kept.get(key)
        if kept is None:
            return self._begin(key, given, arrays, work, 0)
        if kept.changes > MOST_CHANGES:
            return work()
        if not self._fits(kept, given, arrays):
            return self._begin(key, given, arrays, work, kept.changes + 1)
        if kept.program is not None and not kept.program.moved:
            kept.program.run()
            self.runs += 1
            return kept.results
        if kept.steady:
            results, kept.program = self._ops.program_of(work)
            if kept.program is None or not self._alike(results.arrays, kept.results.arrays):
                kept.changes = MOST_CHANGES + 1
        else:
            results = work()
            kept.steady = self._alike(results.arrays, kept.results.arrays)
            kept.changes += not kept.steady
        kept.results = results
        return results

    def _begin(
        self,
        key: Hashable,
        given: Sequence[Any],
        arrays: Sequence[Array | None],
        work: Callable[[], Outcome],
        changes: int,
    ) -> Outcome:
        results = work()
        references = [weakref.ref(one) for one in given]
        self._kept[key] = Kept(references, arrays, results, changes=changes)
        return results

    def _fits(
        self, kept: Kept[Outcome], given: Sequence[Any], arrays: Sequence[Array | None]
    ) -> bool:
        """Whether a pass finds everything where the last one found it."""
        known = [reference() for reference in kept.given]
        same = len(known) == len(given) and all(map(is_, known, given))
        return same and self._alike(kept.arrays, arrays)

    def _alike(self, one: Sequence[Array | None], other: Sequence[Array | None]) -> bool:
        """Whether arrays are the same, or lie at the same places."""
        if len(one) == len(other) and all(map(is_, one, other)):
            return True
        place_of = self._ops.place_of
        return [place_of(array) for array in one] == [place_of(array) for array in other]
