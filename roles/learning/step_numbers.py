"""The numbers that change between two replays of a step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops import Array, Backend

LINE = 16  # bytes; arrays of numbers begin at multiples of it


class StepNumbers:
    """Numbers that change from step to step, in one block of the device's memory: an array for each
    of the host arrays `first`, of the same shape and dtype. A replay reads the present numbers."""

    def __init__(self, ops: Backend, first: Sequence[NDArray[Any]]) -> None:
        ends = list(accumulate((-(-one.nbytes // LINE) * LINE for one in first), initial=0))
        self._ops = ops
        self._host = np.zeros(ends[-1], np.uint8)
        self._parts = [self._host[low:high] for low, high in pairwise(ends)]
        self._block = ops.empty((ends[-1],), np.uint8)
        self.arrays: list[Array] = [
            ops.carve(self._block, at, one.shape, one.dtype)
            for at, one in zip(ends, first, strict=False)
        ]
        self.fill(first)

    def __repr__(self) -> str:
        return f"<{len(self.arrays)} arrays of step numbers, {self._host.size} bytes>"

    def fill(self, values: Sequence[NDArray[Any]]) -> None:
        """Send these numbers to the device, in the order of its work. Does not wait."""
        for part, value in zip(self._parts, values, strict=True):
            part[: value.nbytes] = value.reshape(-1).view(np.uint8)
        if self._host.size:
            self._ops.refill(self._block, self._ops.staged(self._host))
