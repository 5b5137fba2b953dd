"""The confusion matrices of a test: how often each class was found for each label.

The counts of all passes and members add up exactly, so a matrix does not depend on the number of
workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets import Net
from roles.learning.micro_batches import WorkerNet
from roles.messages import TRAIN, PassDone
from runtime import MessageError

MOST_CLASSES = 1000  # of a matrix in a report: 8 MB; nets count fewer
# (classes, classes): a row for each label, a column for each class that was found
Matrix = NDArray[np.int64]


def counts_of(net: WorkerNet) -> tuple[int, ...]:
    """The counts of a net's last pass, to be reported. Only the nets of tests have some."""
    return net.label_counts() if isinstance(net, Net) and net.phase != TRAIN else ()


def joined(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The counts of several batches of one net, as the counts of one. A cell may come twice."""
    found = [part for part in parts if part]
    return (found[0][0], *(number for part in found for number in part[1:])) if found else ()


class Confusion:
    """The matrices of the present test, by the phase of the test net."""

    def __init__(self) -> None:
        self._matrices: dict[str, Matrix] = {}

    def __repr__(self) -> str:
        return f"<confusion matrices of {', '.join(self._matrices) or 'no net'}>"

    def read(self, done: PassDone) -> Matrix | None:
        """The matrix in a worker's report; None if it has none. Raises MessageError if its counts
        are no matrix, or one of another size than those before it."""
        if not done.counts:
            return None
        classes, *pairs = done.counts
        known = self._matrices.get(done.phase)
        fits = 0 < classes <= MOST_CLASSES and (known is None or len(known) == classes)
        cells, counts = pairs[::2], pairs[1::2]
        if not fits or len(cells) != len(counts) or not _within(cells, counts, classes**2):
            raise MessageError("bad_value", f"{done!r}: its counts are no matrix of its classes")
        found: NDArray[Any] = np.zeros(classes**2, np.int64)
        np.add.at(found, cells, counts)
        return found.reshape(classes, classes)

    def add(self, phase: str, matrix: Matrix | None) -> None:
        """Add the matrix of a pass."""
        if matrix is not None:
            known = self._matrices.get(phase)
            self._matrices[phase] = matrix if known is None else known + matrix

    def take(self, phase: str) -> list[list[int]] | None:
        """The matrix of a test that is over, row by row; None if nothing was counted. The next test
        starts afresh."""
        matrix = self._matrices.pop(phase, None)
        return None if matrix is None else matrix.tolist()


def _within(cells: list[int], counts: list[int], size: int) -> bool:
    return all(0 <= cell < size for cell in cells) and all(0 < n < 1 << 48 for n in counts)
