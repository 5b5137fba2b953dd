"""What a checkpoint holds: the servers' states side by side; of an array that several of them have,
the mean; parts of one put together.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ops import Array
from roles.learning.checkpoint_slices import Assembly
from roles.messages import State


class MeanState:
    """Takes one server's state after the other. What the others' differ from the first's is added
    up in float64: the mean of equal arrays is that array, to the last bit."""

    def __init__(self) -> None:
        self._first: dict[str, Array] = {}
        # of those that came more than once: the differences from the first
        self._sums: dict[str, Array] = {}
        self._counts: Counter[str] = Counter()
        self._parts = Assembly()

    def add(self, state: State) -> None:
        """One more server's arrays. ValueError if one has another shape than before."""
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
        """The arrays by name, means where several servers have one. NetError if a part of one did
        not come."""
        means = {
            name: (self._first[name] + total / self._counts[name]).astype(self._first[name].dtype)
            for name, total in self._sums.items()
        }
        return self._first | means | self._parts.arrays()
