"""Passes on a device in parts, which are recorded once for each size of batch and then replayed.

The first passes of a size are plain. Then one is recorded, part by part. The pass after that is
computed plainly, and its last part tries the recording: a replay of all parts must leave the bits
of the plain pass in every array that leaves, and in the scores. Only then do replays take the place
of plain parts.

A replay writes over the arrays of the replay before. So inputs, gradients from other actors and
parameters from model servers are copied to arrays that stay where they are, and arrays that leave
are copied to new ones. Memory that has moved makes the pass be recorded anew. A pass that cannot be
replayed is computed plainly, and the log gives the reason once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from nets import Net
from ops import Array
from roles.learning.buffers import new_parameter
from roles.learning.job import Job
from roles.learning.micro_batches import WorkerNet
from roles.learning.plain_pass import Leaving, Piece, PlainPass
from roles.learning.recordings import GRAPH, Recorded, Recordings, replays, same
from roles.learning.scoreboard import Scores
from roles.learning.step_numbers import StepNumbers
from roles.messages import TRAIN, Blobs

T = TypeVar("T")


def parts_of(nets: Mapping[str, WorkerNet], job: Job, parts: int) -> dict[str, PlainPass]:
    """The passes of the nets of each phase. Those of training, in `parts` parts, are replayed if
    the job asks for that and the net allows it."""
    return {
        phase: ReplayedPass(net, parts, graph=job.gpu_step == GRAPH)
        if phase == TRAIN and replays(net, job)
        else PlainPass(net)
        for phase, net in nets.items()
    }


@dataclass(eq=False)
class RecordedParts(Recorded):
    """A recorded pass. `results`: for each part, the arrays that leave, as replays write them."""

    results: list[Blobs] = field(default_factory=list)


class ReplayedPass(PlainPass):
    """The passes of a net on a device, in `parts` parts. With `graph`, each part becomes a graph if
    the driver can make it."""

    net: Net

    def __init__(self, net: Net, parts: int, *, graph: bool = False) -> None:
        super().__init__(net)
        self.recordings = Recordings[RecordedParts](net, graph=graph)
        self._parts = parts
        self._kept: dict[Hashable, Any] = {}  # arrays that stay where they are, by key
        self._at = 0  # the next part of the present pass
        self._known: RecordedParts | None = None  # the recording of passes of this size
        self._made: RecordedParts | None = None  # the recording of the present pass
        self._plain: list[Blobs] = []  # in a trial: the arrays that left, by part
        self._scores: Scores | None = None  # in a trial: those of the plain pass

    def __repr__(self) -> str:
        return f"<replayed passes in {self._parts} parts, {self.recordings!r}>"

    def begin(self) -> None:
        state = self.net.loaded
        self._at = 0
        self._plain = []
        self._scores = None
        self._known = self.recordings.of_pass(state)
        self._made = None
        if self._known is not None:
            self._known.numbers.fill(self.net.step_numbers())
        elif not self.recordings.refused and self.recordings.due():
            numbers = StepNumbers(self.net.ops, self.net.step_numbers())
            self._made = RecordedParts(numbers, self.net.memory, state)

    def load(self, layer: str, blobs: Blobs) -> None:
        """Copy the parameters to arrays that stay where they are."""
        ops = self.net.ops
        mine = self.own(
            ("parameters", layer),
            lambda: tuple(new_parameter(ops, blob.shape, self.net.dtype) for blob in blobs),
        )
        for into, blob in zip(mine, blobs, strict=True):
            ops.refill(into, blob)
        self.net.load(layer, mine)

    def own(self, key: Hashable, make: Callable[[], T]) -> T:
        """The arrays for the results of a part: the same ones in every pass."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def scalars(self) -> Scores:
        if self._scores is not None:
            return self._scores
        known = self._known
        return super().scalars() if known is None or not known.tried else known.left.scores()()

    def _do(self, pieces: Sequence[Piece], leaving: Leaving) -> Blobs:
        at = self._at
        self._at += 1
        last = self._at == self._parts
        known = self._known
        if known is not None and known.tried:
            known.parts[at].replay()
            if last:
                self.net.take(known.left)
            return _copies(known.results[at])
        if self._made is not None:
            return _copies(self._record(self._made, pieces, leaving, last=last))
        found = _copies(super()._do(pieces, leaving))
        if known is not None:
            self._plain.append(found)
            if last:
                self._try(known)
        return found

    def _record(
        self, made: RecordedParts, pieces: Sequence[Piece], leaving: Leaving, *, last: bool
    ) -> Blobs:
        """Do the work of a part, and record it."""
        self.net.read_numbers(made.numbers.arrays)
        try:
            recording = self.net.ops.record(pieces)
        finally:
            self.net.read_numbers(None)
        found = tuple(leaving())
        if recording.gap:
            self._made = None
            self.recordings.refuse(f"{recording.gap} does work that cannot be recorded")
            return found
        made.parts.append(self.recordings.one_call(recording))
        made.results.append(found)
        if last:
            made.left = self.net.results()
            self.recordings.keep(made)
        return found

    def _try(self, known: RecordedParts) -> None:
        """Replay the plain pass that has just ended, and compare what both leave."""
        ops = self.net.ops
        self._scores = self.net.scalars()
        for part in known.parts:
            part.replay()
        wrong = [
            f"other numbers in part {number} of {self._parts}"
            for number, (plain, replayed) in enumerate(
                zip(self._plain, known.results, strict=True), 1
            )
            for expected, found in zip(plain, replayed, strict=True)
            if not same(ops.to_host(found), ops.to_host(expected), 0.0, ops.repeatable)
        ]
        scores = known.left.scores()() if ops.repeatable else self._scores
        wrong += [
            f"another '{name}'"
            for name, right in self._scores.items()
            if not np.array_equal(scores[name], right, equal_nan=True)
        ]
        if wrong:
            self.recordings.distrust(f"{wrong[0]} than a plain pass")
        else:
            self.recordings.trust(known)


def _copies(arrays: Sequence[Array]) -> Blobs:
    """New arrays with the same numbers, which lie in memory in the same order."""
    return tuple(array.copy(order="K") for array in arrays)
