"""Work of a device that is recorded once and replayed, and the numbers that change between two
replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ops.errors import Array

if TYPE_CHECKING:
    from ops.interface.backend import Backend

LINE = 16  # bytes; arrays of numbers begin at multiples of it


class Recording:
    """The calls of some work, in their order. The arrays that they read and write stay in memory as
    long as the recording.

    `gap`: the name of the first piece of the work that did something that was not recorded, such as
    a copy by another library; "" if there was none. Only a recording without a gap may be replayed.
    """

    def __init__(
        self,
        calls: Sequence[Callable[[], object]],
        held: Sequence[object],
        gap: str,
        moved: Callable[[], bool],
    ) -> None:
        self.calls = tuple(calls)
        self.gap = gap
        self._held = held
        self._moved = moved

    def __repr__(self) -> str:
        return f"<recording of {len(self.calls)} calls>"

    @property
    def moved(self) -> bool:
        """Whether scratch memory of the backend has moved since: the calls must then be recorded
        anew."""
        return self._moved()

    def replay(self) -> None:
        """Start all calls. Does not wait for the device."""
        for call in self.calls:
            call()


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
        self._ops.refill(self._block, self._ops.staged(self._host))
