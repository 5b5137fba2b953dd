"""Layers of a net that are replayed: their kernels run again without Python between them.

The arrays of a net with memory "reused" stay where they are, and so do parameters that are updated
in place. Consecutive layers of a stage, forward or backward, then start the same kernels with the
same arguments in every pass. The first pass is computed plainly, the second must find and leave all
arrays at the same places, the third is recorded by the backend (`Backend.record`), and the others
are replayed. A pass that finds an array elsewhere is computed plainly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Generic, Protocol, TypeVar

from ops import Array, Backend, Recording

MOST_CHANGES = 8  # passes that may find arrays elsewhere, before layers are always computed plainly


class Results(Protocol):
    """What layers leave in a pass."""

    @property
    def arrays(self) -> list[Array | None]:
        """All arrays, in a fixed order."""


Outcome = TypeVar("Outcome", bound=Results)


@dataclass
class Kept(Generic[Outcome]):
    """Layers as the last passes found them: the arrays that they read, and those `given` from
    outside, which are not kept alive."""

    given: list[weakref.ref[Any]]
    arrays: Sequence[Array | None]
    results: Outcome
    steady: bool = False
    changes: int = 0
    recording: Recording | None = None


class ReplayedLayers:
    """The recordings of one net's layers."""

    def __init__(self, ops: Backend) -> None:
        self._ops = ops
        self._kept: dict[Hashable, Kept[Any]] = {}
        self.replays = 0  # how often a recording took the place of a computation

    def __repr__(self) -> str:
        return f"<{self.count} recordings, {self.replays} replays>"

    @property
    def count(self) -> int:
        """The number of recordings."""
        return sum(kept.recording is not None for kept in self._kept.values())

    def forget(self) -> None:
        """Forget all recordings, because arrays have moved."""
        self._kept = {}

    def compute(
        self,
        key: Hashable,
        given: Sequence[Any],
        arrays: Sequence[Array | None],
        work: Callable[[], Outcome],
    ) -> Outcome:
        """Return the results of layers, by a replay or by `work`. `given`: the parameters and the
        destinations of gradients. `arrays`: the net's own arrays that the layers read."""
        kept: Kept[Outcome] | None = self._kept.get(key)
        if kept is not None and kept.changes > MOST_CHANGES:
            return work()
        if kept is None or not self._fits(kept, given, arrays):
            results = work()
            changes = 0 if kept is None else kept.changes + 1
            references = [weakref.ref(one) for one in given]
            self._kept[key] = Kept(references, arrays, results, changes=changes)
            return results
        if kept.recording is not None and not kept.recording.moved:
            kept.recording.replay()
            self.replays += 1
            return kept.results
        if kept.steady:
            results = self._record(kept, work)
        else:
            results = work()
            kept.steady = self._alike(results.arrays, kept.results.arrays)
            kept.changes += not kept.steady
        kept.results = results
        return results

    def _record(self, kept: Kept[Outcome], work: Callable[[], Outcome]) -> Outcome:
        found: list[Outcome] = []
        recording = self._ops.record([("layers", lambda: found.append(work()))])
        (results,) = found
        if recording.gap or not self._alike(results.arrays, kept.results.arrays):
            kept.recording = None
            kept.changes = MOST_CHANGES + 1
        else:
            kept.recording = recording
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
