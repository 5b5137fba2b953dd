"""Batches for a net whose rows are streams: samples are steps of time of all streams, and rows are
sequences of one stream.

Row n of batch b is stream n in the steps of batch b. So a batch is cut by streams, as other batches
are cut by images.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nets.data.batches.batches import Batches, Forms
from nets.errors import DataError


class StreamBatches:
    """The rows of `steps`, whose batches are the steps of time of one pass of `streams` streams.

    It has the methods of `Batches` that read. Rows are counted from the run's first batch.
    """

    divisible = False  # any rows are read by whole batches

    def __init__(self, steps: Batches, streams: int) -> None:
        self._steps = steps
        self.source = steps.source
        self.batch = streams
        for shape in steps.shapes:
            if shape[:1] != (streams,):
                raise DataError(
                    f"{self.source.name}: found samples of shape {shape}, expected "
                    f"({streams}, ...): one step of the net's {streams} streams"
                )

    def __repr__(self) -> str:
        return f"<StreamBatches of {self.batch} streams, {self._steps!r}>"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of one row in each array that `read` returns: (steps of time, ...)."""
        return [(self._steps.batch, *shape[1:]) for shape in self._steps.shapes]

    @property
    def forms(self) -> Forms:
        """The shape of one row, and the dtype, of each array that `samples` returns."""
        return [(shape, np.dtype(np.float32)) for shape in self.shapes]

    def read(self, ticket: int, low: int, high: int) -> tuple[NDArray[np.float32], ...]:
        """Return rows [low, high) of batch `ticket`, in the form of `samples`."""
        if ticket < 0 or not 0 <= low <= high <= self.batch:
            raise DataError(
                f"rows: found batch {ticket}, rows [{low}, {high}), expected a "
                f"part of [0, {self.batch})"
            )
        return self.samples(ticket * self.batch + low, ticket * self.batch + high)

    def samples(self, low: int, high: int) -> tuple[NDArray[np.float32], ...]:
        """Return rows [low, high), counted from the run's first row: for each array of the source
        (n, steps of time, ...) float32."""
        if not 0 <= low <= high:
            raise DataError(f"samples: found [{low}, {high}), expected 0 <= low <= high")
        parts: list[list[NDArray[np.float32]]] = []
        at = low
        while at < high or not parts:
            ticket, first = divmod(at, self.batch)
            count = min(high - at, self.batch - first)
            whole = self._steps.read(ticket, 0, self._steps.batch)
            parts.append([array.swapaxes(0, 1)[first : first + count] for array in whole])
            at += count
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
