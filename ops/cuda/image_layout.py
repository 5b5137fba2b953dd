"""How images lie in a device's memory: (N, C, H, W) as [N][H][W][C], rows of C numbers, one for
each pixel.

A product of windows and weights writes such rows in place, also those of a part of a batch or of
the channels. Neighbouring threads read neighbouring numbers, and the tensor cores take images in
this order. A slice of channels consists of rows too, which lie further apart: `step` numbers from
one to the next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.errors import BFLOAT16, Array, Shape

TO_MEMORY = (0, 2, 3, 1)  # NCHW -> NHWC, and back
TO_LOGICAL = (0, 3, 1, 2)
ALIGNED = 16  # bytes that a thread moves at once


def new_images(xp: Any, shape: Shape, dtype: Any) -> Array:
    """A new array (N, C, H, W) over memory [N][H][W][C], contents undefined."""
    n, c, h, w = shape
    array: Array = xp.empty((n, h, w, c), dtype).transpose(TO_LOGICAL)
    return array


def like(block: Array, x: Array) -> Array:
    """An array over the bytes of a block, with the shape of x and the order of its axes in memory,
    without gaps."""
    axes = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    dense = block.view(x.dtype).reshape([x.shape[axis] for axis in axes])
    return dense.transpose([axes.index(axis) for axis in range(x.ndim)])


def step_of(x: Array) -> int | None:
    """The distance in numbers between two rows of x (N, D), or two pixels of x (N, C, H, W). None
    if rows or pixels are not evenly spaced, or their numbers not side by side.

    In any other array, which must be contiguous, a row is the last axis.
    """
    if x.ndim not in (2, 4):
        return (x.shape[-1] if x.ndim else 1) if x.flags.c_contiguous else None
    strides = [stride // x.itemsize for stride in x.strides]
    if x.ndim == 2:
        (n, c), (sn, sc) = x.shape, strides
        step = sn if n > 1 else c
        even = True
    else:
        (n, c, h, w), (sn, sc, sh, sw) = x.shape, strides
        step = sw if w > 1 else sh if h > 1 else sn if n > 1 else c
        even = (h == 1 or sh == w * step) and (n == 1 or sn == h * w * step)
    return step if even and (sc == 1 or c == 1) and step >= c else None


def width(x: Array) -> int:
    """The length of a row in numbers."""
    return int(x.shape[1]) if x.ndim in (2, 4) else int(x.shape[-1]) if x.ndim else 1


def rows(x: Array) -> Array:
    """x, which has a `step_of`, as rows (pixels, C): a view."""
    if x.ndim != 4:
        return x
    found: Array = x.transpose(TO_MEMORY).reshape(-1, x.shape[1])
    return found


def address(x: Array) -> int:
    """The address where x begins: on the device, or that of a NumPy array, which stands in for a
    device's in tests."""
    return int(x.ctypes.data if isinstance(x, np.ndarray) else x.data.ptr)


def in_fours(size: int, *arrays: Array) -> bool:
    """Whether threads may take four numbers at a time, of `size` and of every row of these
    arrays."""
    steps = [step_of(x) or 1 for x in arrays]
    return (
        size % 4 == 0
        and all(step % 4 == 0 for step in steps)
        and all(address(x) % min(ALIGNED, 4 * x.itemsize) == 0 for x in arrays)
    )


def arithmetic(x: Array) -> Any:
    """The dtype in which kernels compute with x: float32 if x is stored in bfloat16."""
    return np.dtype(np.float32) if x.dtype == BFLOAT16 else x.dtype


def size_of(shape: Shape, dtype: Any) -> int:
    """Bytes of an array."""
    return math.prod(shape) * int(dtype.itemsize)
