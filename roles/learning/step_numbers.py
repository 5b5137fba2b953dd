"""The numbers that change between two replays of a step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
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
        block = ops.empty((max(ends[-1], LINE),), np.uint8)  # a pass may have no such numbers
        places = [(at, one.shape, one.dtype) for at, one in zip(ends, first, strict=False)]
        self.arrays: list[Array] = [ops.carve(block, *place) for place in places]
        self._sender = ops.sender(block)
        # the same arrays in each room of the host
        self._rooms = [
            [
                room[at : at + one.nbytes].view(one.dtype).reshape(one.shape)
                for at, one in zip(ends, first, strict=False)
            ]
            for room in self._sender.rooms
        ]
        self.fill(first)

    def __repr__(self) -> str:
        return f"<{len(self.arrays)} arrays of step numbers, {self._sender!r}>"

    def fill(self, values: Sequence[NDArray[Any]]) -> None:
        """Send these numbers to the device, in the order of its work. Does not wait for the
        copy."""
        for room, value in zip(self._rooms[self._sender.room()], values, strict=True):
            room[...] = value
        self._sender.send()
