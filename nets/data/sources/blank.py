"""A source of zeros in any number and any shape, which takes no memory. It serves measurements that
need no learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nets.data.sources.source import Source
from nets.errors import DataError

MAX_SIZE = 1 << 27  # a shuffled epoch takes 8 bytes per sample
MAX_PIXELS = 3 << 25  # of one image, as for decoded images (`decode`)


class BlankSource(Source):
    """`size` samples of zeros with these shapes, one array per shape: images (C, H, W) of class 0,
    or other arrays that a net reads."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], size: int) -> None:
        super().__init__("blank", cast(tuple[int, int, int], shapes[0]))
        self._size = size
        self.shapes = tuple(shapes)

    def __len__(self) -> int:
        return self._size

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[Any], ...]:
        kinds = [np.uint8 if shape else np.int64 for shape in self.shapes]
        return tuple(
            np.zeros((len(indices), *shape), kind)
            for shape, kind in zip(self.shapes, kinds, strict=True)
        )


def open_blank(
    *,
    base_dir: Path,
    shape: Sequence[int] = (),
    shapes: Sequence[Sequence[int]] = (),
    size: int = 1 << 20,
) -> BlankSource:
    """Open a source of `size` images of `shape` (C, H, W) with labels, or of samples with one array
    for each of `shapes`."""
    if bool(shape) == bool(shapes):
        raise DataError("blank: shape: expected either shape or shapes")
    if shape and (len(shape) != 3 or min(shape) < 1):
        raise DataError(
            f"blank: shape: found {list(shape)}, expected three integers >= 1 (C, H, W)"
        )
    if any(one < 1 for each in shapes for one in each):
        raise DataError(f"blank: shapes: found {list(shapes)}, expected lists of integers >= 1")
    if not 1 <= size <= MAX_SIZE:
        raise DataError(f"blank: size: found {size}, expected an integer from 1 to {MAX_SIZE}")
    wanted = [tuple(shape), ()] if shape else [tuple(each) for each in shapes]
    if max(map(math.prod, wanted)) > MAX_PIXELS:
        key, found = ("shape", list(shape)) if shape else ("shapes", list(shapes))
        raise DataError(f"blank: {key}: found {found}, expected at most {MAX_PIXELS} numbers")
    return BlankSource(wanted, size)
