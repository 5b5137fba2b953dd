"""The outer step: the update of the outer model by what islands have gained.

A gain is a model after local steps minus the model before them. With learning rate `rate` and
momentum `momentum`, gains that have a `share` of the samples of one period change the model by

    v' = momentum^share v + share gain
    x' = x + rate (share gain + momentum share v')

With share 1 this is Nesterov's momentum on gains (DiLoCo, arXiv 2311.08105). Where the gains of a
period arrive one by one, the momentum of all of them decays as much as in one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ops import Array
from roles.messages import Blobs


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


class OuterStep:
    """The outer rate and momentum, and the velocity of each parameter. Arrays are in host
    memory."""

    def __init__(self, rate: float, momentum: float) -> None:
        self._rate = rate
        self._momentum = momentum
        self._velocity: dict[str, Array] = {}  # "layer.i", as a checkpoint calls the parameter

    def __repr__(self) -> str:
        return f"<outer step, rate {self._rate}, momentum {self._momentum}>"

    def apply(self, layer: str, model: Blobs, gains: Blobs, share: float) -> None:
        """Change a layer's parameters in place. The gains may be written over."""
        for index, (x, gain) in enumerate(zip(model, gains, strict=True)):
            kind = x.dtype.type
            gain *= kind(share)
            if self._momentum:
                velocity = self._of(f"{layer}.{index}", x)
                velocity *= kind(self._momentum**share)
                velocity += gain
                gain += kind(self._momentum * share) * velocity
            gain *= kind(self._rate)
            x += gain

    def _of(self, key: str, x: Array) -> Array:
        if key not in self._velocity:
            self._velocity[key] = np.zeros(x.shape, x.dtype)
        return self._velocity[key]

    def set_aside(self) -> dict[str, Array]:
        """Copy all velocities."""
        return {key: array.copy() for key, array in self._velocity.items()}

    def take_back(self, kept: Mapping[str, Array]) -> None:
        """Replace all velocities by a copy. Those that are not in it become zero."""
        self._velocity = {key: np.array(array) for key, array in kept.items()}
