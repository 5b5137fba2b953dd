"""The arrays of a checkpoint: the states of all servers side by side. An array that several servers
have is averaged, and parts of an array are put together."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ops import Array
from roles.learning.checkpoint_slices import Assembly
from roles.messages import State


class MeanState:
    """Takes one server's state after the other, and averages.

    The differences of later states from the first are added up in float64, so the mean of equal
    arrays is that array, to the last bit.
    """

    def __init__(self) -> None:
        self._first: dict[str, Array] = {}
        # for arrays that came more than once: the sum of differences from the first
        self._sums: dict[str, Array] = {}
        self._counts: Counter[str] = Counter()
        self._parts = Assembly()

    def add(self, state: State) -> None:
        """Add one more server's arrays. Raises ValueError if an array has another shape than
        before."""
        for name, array in zip(state.names, state.arrays, strict=True):
            if name in state.slices:
                self._parts.add(name, array, state.slices[name])
                continue
            self._counts[name] += 1
            if self._counts[name] == 1:
                self._first[name] = array
            else:
                first = self._first[name]
                total = self._sums.setdefault(name, np.zeros(first.shape))
                total += np.subtract(array, first, dtype=np.float64)

    def arrays(self) -> dict[str, Array]:
        """The arrays by name. Arrays that several servers have are means. Raises NetError if a part
        of an array is missing."""
        means = {
            name: (self._first[name] + total / self._counts[name]).astype(self._first[name].dtype)
            for name, total in self._sums.items()
        }
        return self._first | means | self._parts.arrays()
