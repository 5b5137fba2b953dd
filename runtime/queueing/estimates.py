"""Means of simulated measurements with their confidence intervals. A figure without its confidence
proves nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BATCHES = 20
T_95 = 2.093  # from Student's distribution: two-sided 95 % with BATCHES - 1 degrees of freedom


@dataclass(frozen=True)
class Estimate:
    """A mean and half the width of its 95 % confidence interval."""

    mean: float
    half_width: float

    def holds(self, value: float) -> bool:
        """Return whether the interval contains a value."""
        return abs(value - self.mean) <= self.half_width


def batch_means(values: Sequence[float]) -> Estimate:
    """Estimate the mean of a series whose neighbours depend on each other.

    The series is cut into BATCHES long batches, whose means hardly depend on each other (Law and
    Kelton, Simulation Modeling and Analysis, on batch means). Raises ValueError if the series has
    fewer values than BATCHES.
    """
    size = len(values) // BATCHES
    if not size:
        raise ValueError(f"found {len(values)} values, expected {BATCHES} at least")
    means = [math.fsum(values[at * size : (at + 1) * size]) / size for at in range(BATCHES)]
    mean = math.fsum(means) / BATCHES
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in means) / (BATCHES - 1))
    return Estimate(mean, T_95 * spread / math.sqrt(BATCHES))
