"""How kernels see images: an address and strides, with the channels of a pixel side by side.

Activations are logically NCHW and lie in memory as [H][W][N][C]: for one pixel the images of a
batch are neighbours, so a block of images is the rows of a micro-kernel, they all meet the same
padding, and no layer converts for the next.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ops.cpu.team.operands import F32, LOADED, address
from ops.cpu.team.workspace import LINE
from ops.errors import Array, Shape

TO_MEMORY = (2, 3, 0, 1)  # NCHW -> HWNC, and back: the same permutation
TO_LOGICAL = (2, 3, 0, 1)


class Image(NamedTuple):
    """A batch of images in memory: address and strides (image, row, column) in bytes; channels are
    contiguous."""

    at: int
    sn: int
    sh: int
    sw: int


def channels_last(x: Array, dtypes: tuple[np.dtype[Any], ...] = (F32,)) -> bool:
    """Whether kernels can read x (N, C, H, W) in place: one of these types, the channels of a pixel
    side by side, aligned."""
    beside = x.dtype in dtypes and (x.strides[1] == x.itemsize or x.shape[1] == 1)
    return beside and not _odd(x)


def lies_well(x: Array) -> bool:
    """Whether the kernels can read x in place: images with channels side by side."""
    return x.ndim == 4 and channels_last(x, LOADED)


def _odd(x: Array) -> bool:
    n, c, h, w = x.strides
    apart = (n | c | h | w | address(x)) & (x.itemsize - 1)
    return bool(apart) or n < 0 or c < 0 or h < 0 or w < 0


def image(x: Array) -> Image:
    """The address and strides of x, for which `channels_last(x)` must hold."""
    sn, _, sh, sw = x.strides
    return Image(address(x), sn, sh, sw)


def empty_images(shape: Shape, dtype: Any = np.float32) -> Array:
    """A new array (N, C, H, W) over memory [H][W][N][C], contents undefined."""
    n, c, h, w = shape
    return empty_aligned((h, w, n, c), dtype).transpose(TO_LOGICAL)


def empty_aligned(shape: Shape, dtype: Any = np.float32) -> Array:
    """A new array in C order that starts at a cache line, contents undefined."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    block = np.empty(size + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    found: Array = block[start : start + size].view(dtype).reshape(shape)
    return found
