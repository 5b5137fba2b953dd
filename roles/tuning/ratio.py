"""A ratio of two sums of noisy pairs, with its standard error."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

BLOCK = 32  # pairs in a block
BLOCKS = 64  # blocks that are kept: the last 2048 pairs
LEAST = 4  # blocks that a result needs
# the sum below must be this many standard errors away from 0; closer to 0 it is a weak instrument
STRONG = 4.0


@dataclass(frozen=True)
class Measured:
    """A measured figure and its standard error, in the same unit."""

    value: float
    error: float


class Ratio:
    """sum(above) / sum(below) of the last BLOCK * BLOCKS pairs.

    Gradients shrink by orders of magnitude while a net learns. So each pair is divided by the mean
    size of the pairs before it. Neighbouring pairs depend on one another, but blocks of them hardly
    do. The error is that of the ratio estimator over blocks (Cochran, Sampling Techniques, section
    6.4).
    """

    def __init__(self, block: int = BLOCK) -> None:
        self._size = block
        self._count = 0
        self._usual = 0.0  # mean size of a pair
        self._open = (0.0, 0.0)
        self._blocks: deque[tuple[float, float]] = deque(maxlen=BLOCKS)

    def __repr__(self) -> str:
        return f"<ratio of {len(self._blocks)} blocks of {self._size}: {self.measured()}>"

    def forget(self) -> None:
        """Forget all pairs so far. Their mean size is kept."""
        self._blocks.clear()
        self._open = (0.0, 0.0)
        self._count = 0

    def add(self, above: float, below: float) -> None:
        """Add a pair. A pair that is not finite is ignored."""
        if not math.isfinite(above) or not math.isfinite(below):
            return
        size = abs(above) + abs(below)
        usual = self._usual or size or 1.0
        self._open = self._open[0] + above / usual, self._open[1] + below / usual
        self._usual = usual + (size - usual) / self._size
        self._count += 1
        if self._count == self._size:
            self._blocks.append(self._open)
            self._open = (0.0, 0.0)
            self._count = 0

    def measured(self) -> Measured | None:
        """The ratio and its error. None before LEAST blocks are complete, and where the sum below
        could as well be 0."""
        above, below = (
            (math.fsum(sums) for sums in zip(*self._blocks, strict=True))
            if self._blocks
            else (0.0, 0.0)
        )
        count = len(self._blocks)
        if count < LEAST:
            return None
        if not any(a for a, _ in self._blocks):
            return Measured(0.0, 0.0)
        spread = math.fsum((b - below / count) ** 2 for _, b in self._blocks) * count / (count - 1)
        if abs(below) <= STRONG * math.sqrt(spread):
            return None
        value = above / below
        squares = math.fsum((a - value * b) ** 2 for a, b in self._blocks)
        return Measured(value, math.sqrt(squares * count / (count - 1)) / abs(below))
