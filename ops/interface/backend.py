"""The contract of an array backend: its arrays, and every operation that training needs.

Arrays are logically NCHW whatever their strides, and no operation assumes contiguity. Operations
are pure: nothing is kept between calls, and what a backward pass needs is passed in. A destination
(`out`) is written and returned; None allocates. Inputs are all float32 or all float64. A wrong
shape or dtype is an OpsError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ops.errors import Array, OpsError, Shape
from ops.interface import (
    CompressionOps,
    ElementwiseOps,
    LossOps,
    SequenceOps,
    SpatialOps,
    StatisticsOps,
    UpdateOps,
)
from ops.reference.lowering import Lowering


class Backend(
    SpatialOps, ElementwiseOps, StatisticsOps, LossOps, SequenceOps, UpdateOps, CompressionOps
):
    """Operations over one array module `xp` with NumPy's interface.

    `b_p` images are lowered together by a convolution; None takes the whole batch.
    """

    name: str
    xp: Any
    channels_last = False  # whether `empty` keeps images as [H][W][N][C]
    on_host = True  # whether arrays are NumPy's
    joins = False  # whether norm_scale_* take fewer passes than the operations one by one
    compiles = False  # whether an operation may have to be compiled when it first runs
    tries = False  # whether it tries algorithms out when the first operation of a shape runs
    # Where `empty` on the host takes memory from (bytes -> aligned uint8 array), so that others can
    # read in place.
    memory: Callable[[int], Array] | None = None

    def __init__(self, b_p: int | None = None) -> None:
        if b_p is not None and (type(b_p) is not int or b_p < 1):
            raise OpsError(
                f"{self.name} backend: b_p is {b_p!r}, expected an integer of at least 1, or None"
            )
        self.lowering = Lowering(b_p)

    @property
    def b_p(self) -> int | None:
        """How many images are lowered together; None for the whole batch."""
        return self.lowering.b_p

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} b_p={self.b_p}>"

    def asarray(self, host: Any, dtype: Any = None) -> Array:
        """The backend's array of host data (no copy where it already is one)."""
        array: Array = self.xp.asarray(host, dtype)
        return array

    def synchronize(self) -> None:
        """Wait until all that was asked for so far is done."""

    def staged(self, host: Array) -> Array:
        """Host data as it is best fed, in memory from which a device copies by itself; any thread
        may ask. Host data itself where there is nothing to gain."""
        return host

    def fed(self, host: Any, dtype: Any) -> Array:
        """The backend's array of a net's input, in that dtype; what was `staged` is not waited
        for."""
        return self.asarray(host, dtype)

    def to_host(self, x: Array) -> Array:
        """A NumPy array of x (no copy where it already is one)."""
        return np.asarray(x)

    def sums(self, arrays: Sequence[Array]) -> list[float]:
        """The sum of each array, as Python's numbers: a device is waited for once."""
        return [float(x.sum() if x.ndim else x) for x in map(self.to_host, arrays)]

    def empty(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """A new array, contents undefined."""
        if self.memory is not None and self.on_host:
            return self.carve(
                self.memory(math.prod(shape) * np.dtype(dtype).itemsize), 0, shape, dtype
            )
        array: Array = self.xp.empty(shape, dtype)
        return array

    def carve(self, block: Array, offset: int, shape: Shape, dtype: Any = np.float32) -> Array:
        """An array in the memory of `block` (uint8) from byte `offset` on, laid out as by
        `empty`."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        array: Array = block[offset : offset + size].view(dtype).reshape(shape)
        return array

    def images(self, x: Array, out: Array | None = None) -> Array:
        """x (N, C, H, W) as `empty` lays images out, or copied to `out`; x itself if it lies so
        already."""
        if out is None:
            return x
        out[...] = x
        return out

    def zeros(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """A new array of zeros."""
        array: Array = self.xp.zeros(shape, dtype)
        return array
