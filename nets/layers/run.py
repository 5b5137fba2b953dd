"""One pass as its layers see it: the rows, and random numbers that belong to rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import generator

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One pass: rows [low, high) of a batch of `whole` rows, at training step `step`, in `phase`.

    `spans`, if given, are the ranges of these rows that the pass computes. `steps` is not 0 if rows
    are streams: blobs are then (steps, rows, ...).
    """

    phase: str
    seed: int
    step: int
    low: int
    high: int
    whole: int
    spans: tuple[tuple[int, int], ...] = ()
    steps: int = 0

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The ranges of rows of this pass, at least one."""
        return self.spans or ((self.low, self.high),)

    @property
    def rows(self) -> int:
        """The number of rows of this pass."""
        return sum(high - low for low, high in self.ranges)

    @property
    def share(self) -> float:
        """The fraction of the whole batch that this pass computes."""
        return self.rows / self.whole

    def uniforms(
        self, key: str, name: str, shape: Shape, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return random numbers in [0, 1) that depend on (seed, step, key, name, row) only: every
        worker draws the same numbers for a row.

        `out`, if given, is C-contiguous host memory.
        """
        drawn = np.empty(shape, np.float32) if out is None else out
        source = generator(self.seed, key, self.step, name)
        before = 0
        for part, first in self.parts(shape):
            into = drawn[part]
            skipped = first - before
            while skipped:  # numbers of other workers' rows are drawn and dropped
                count = min(skipped, len(into))
                source.random(dtype=np.float32, out=into[:count])
                skipped -= count
            source.random(dtype=np.float32, out=into)
            before = first + len(into)
        return drawn

    def parts(self, shape: Shape) -> Iterator[tuple[Any, int]]:
        """Yield (part, first) for the ranges of rows of an array of this shape: the index of its
        rows in the array, and the place of its first row among all rows of the whole batch.

        Blobs of streams have rows in axes 0 and 1, or in axis 0 if both were folded into one.
        """
        rows = self.rows
        in_two = shape[:2] == (self.steps, rows)
        in_one = not in_two and self.steps > 0 and shape[0] % (self.steps * rows) == 0
        steps = self.steps if in_two or in_one else 1
        each = 1 if in_two else shape[0] // (steps * rows)  # 1 unless an axis was folded into rows
        at = 0
        for step in range(steps):
            at = 0 if in_two else at
            for low, high in self.ranges:
                part = slice(at, at + (high - low) * each)
                yield (step, part) if in_two else part, (step * self.whole + low) * each
                at = part.stop
