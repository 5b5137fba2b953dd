"""A check of a source before training: some samples are read as training will read them, so that
damage is found early. Also a check whether the samples are ordered by class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.sources.source import Source

MOST_NUMBERS = 1 << 24  # numbers of the first array: 21 000 digits, 85 photographs of 256 x 256
LEAST = 3  # samples, even if they are large


def examined(source: Source) -> tuple[NDArray[Any], ...]:
    """Return samples of a source, evenly spread and in order: all, if they are few or in memory.
    Raises DataError for a damaged sample.

    A source in memory does not copy its samples.
    """
    most = max(LEAST, MOST_NUMBERS // max(1, math.prod(source.shape)))
    count = min(len(source), most)
    return source.look(np.arange(count, dtype=np.int64) * len(source) // count)


def in_classes(labels: NDArray[Any]) -> int:
    """Return the number of classes if each class comes in one piece, or nearly; otherwise 0."""
    if labels.ndim != 1 or not len(labels):
        return 0
    classes = len(np.unique(labels))
    pieces = 1 + int(np.count_nonzero(np.diff(labels)))
    return classes if classes > 1 and pieces < 2 * classes and len(labels) >= 4 * classes else 0
