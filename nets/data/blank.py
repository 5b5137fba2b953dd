"""Images that are not there: any number, any shape, all zero, no memory. For measuring what is no learning."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.source import Source
from nets.errors import DataError

MAX_SIZE = 1 << 27  # a shuffled epoch holds 8 bytes for each
MAX_PIXELS = 3 << 25  # of one image: as large as one that is decoded (`decode`)


class BlankSource(Source):
    """`size` images of zeros (C, H, W), all of class 0."""

    def __init__(self, shape: tuple[int, int, int], size: int) -> None:
        super().__init__("blank", shape)
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[Any], ...]:
        """See Source.read."""
        return np.zeros((len(indices), *self.shape), np.uint8), np.zeros(len(indices), np.int64)


def open_blank(*, base_dir: Path, shape: tuple[int, ...], size: int = 1 << 20) -> BlankSource:
    """The source of `size` images of `shape` (C, H, W)."""
    if len(shape) != 3 or min(shape) < 1:
        raise DataError(f"blank: shape: found {list(shape)}, expected three integers >= 1 (C, H, W)")
    if not 1 <= size <= MAX_SIZE:
        raise DataError(f"blank: size: found {size}, expected an integer from 1 to {MAX_SIZE}")
    if math.prod(shape) > MAX_PIXELS:
        raise DataError(f"blank: shape: found {list(shape)}, expected at most {MAX_PIXELS} numbers")
    channels, height, width = shape
    return BlankSource((channels, height, width), size)
