"""The outer step: the update of the outer model by what islands have gained.

A gain is a model after local steps minus the model before them. With learning rate `rate` and
momentum `momentum`, gains that have a `share` of the samples of one period change the model by

    v' = momentum^share v + share gain
    x' = x + rate (share gain + momentum share v')

With share 1 this is Nesterov's momentum on gains (DiLoCo, arXiv 2311.08105). Where the gains of a
period arrive one by one, the momentum of all of them decays as much as in one step.

In the long run the model moves rate / (1 - momentum) times the mean gain. The momentum that is
chosen makes this factor the square root of the number of islands (`chosen_momentum`), and grows to
that over the first WARM periods: at the beginning of a run gains are large, and momentum makes a
rate diverge that suits one process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ops import Array
from roles.messages import Blobs

WARM = 20  # periods
PERIODS = "periods"  # the name of their number among the velocities, which are called "layer.i"


def mean_gain(gains: Sequence[Blobs], rows: Sequence[int]) -> Blobs:
    """The mean of the gains of a layer's parameters, each weighted by the rows that its island
    trained on. Sums are made in the given order."""
    total = sum(rows)
    found = []
    for arrays in zip(*gains, strict=True):
        mean = np.zeros(arrays[0].shape, arrays[0].dtype)
        for array, count in zip(arrays, rows, strict=True):
            if count:
                mean += np.multiply(array, array.dtype.type(count / total))
        found.append(mean)
    return tuple(found)


def chosen_momentum(rows: Sequence[int]) -> float:
    """The momentum for islands that train so many rows in a period: 1 - 1 / sqrt(N), where they
    count as N = (sum n)^2 / sum n^2 equal islands.

    The mean gain of N islands has seen N times the samples of one island's gain, but moves no
    further. With this momentum it moves sqrt(N) times as far, which is the rule for the learning
    rate of a batch N times as large (One weird trick, section 5). 0 without any rows.
    """
    total = sum(rows)
    return 1 - math.sqrt(sum(count * count for count in rows)) / total if total else 0.0


class OuterStep:
    """The outer rate and momentum, and the velocity of each parameter. Arrays are in host memory.
    `momentum` None: chosen by the rows that islands train (`suit`)."""

    def __init__(self, rate: float, momentum: float | None) -> None:
        self._rate = rate
        self._chosen = momentum is None
        self._momentum = momentum or 0.0
        self._periods = 0.0
        self._velocity: dict[str, Array] = {}  # "layer.i", as a checkpoint calls the parameter

    def __repr__(self) -> str:
        return f"<outer step, rate {self._rate}, momentum {self._momentum}>"

    def suit(self, rows: Sequence[int], share: float) -> None:
        """Before a step with a `share` of a period: choose the momentum for islands that train so
        many rows in a period, unless it is given."""
        if self._chosen:
            self._periods += share
            self._momentum = chosen_momentum(rows) * min(1.0, self._periods / WARM)

    def apply(self, layer: str, model: Blobs, gains: Blobs, share: float) -> None:
        """Change a layer's parameters in place. The gains may be written over."""
        for index, (x, gain) in enumerate(zip(model, gains, strict=True)):
            kind = x.dtype.type
            key = f"{layer}.{index}"
            gain *= kind(share)
            if self._momentum:
                velocity = self._of(key, x)
                velocity *= kind(self._momentum**share)
                velocity += gain
                gain += kind(self._momentum * share) * velocity
            else:
                self._velocity.pop(key, None)  # of a time with more islands
            gain *= kind(self._rate)
            x += gain

    def _of(self, key: str, x: Array) -> Array:
        if key not in self._velocity:
            self._velocity[key] = np.zeros(x.shape, x.dtype)
        return self._velocity[key]

    def set_aside(self) -> dict[str, Array]:
        """Copy all velocities, and the number of periods if the momentum depends on it."""
        kept = {key: array.copy() for key, array in self._velocity.items()}
        return kept | ({PERIODS: np.array([self._periods])} if self._chosen else {})

    def take_back(self, kept: Mapping[str, Array]) -> None:
        """Replace all velocities by a copy. Those that are not in it become zero."""
        self._periods = float(kept[PERIODS][0]) if PERIODS in kept else 0.0
        self._velocity = {key: np.array(array) for key, array in kept.items() if key != PERIODS}
