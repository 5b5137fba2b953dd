"""Max and average pooling, forward and backward, of images with channels side by side. The loops
are in `windows`.

The reference computes the forward pass of stochastic pooling; its backward pass is the one of MAX.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from ops.cpu.codegen.code import Generated
from ops.cpu.codegen.target import host
from ops.cpu.elementwise.windows import (
    POOL,
    average_backward,
    average_forward,
    max_forward,
    max_forward_alone,
    max_forward_rectified,
    places_backward,
    places_backward_apart,
)
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, LARGE, LOADED, address, goes_past, halves, seen
from ops.errors import Array, Shape
from ops.geometry import PoolGeometry

# bytes of input rows that overlapping windows share: a good part of a core's second-level cache
CACHED = 3 << 18
FEW = 4  # chunks of rows for each thread, at least
I32 = np.dtype(np.int32)


class Plan(NamedTuple):
    """A kernel and its block of arguments without addresses. `shares`: 1 / size of each window;
    `past`: whether aligned results bypass the caches."""

    kernel: Generated
    block: Any
    shares: Array | None
    past: bool


class Pooling(Fast):
    """Pooling without an intermediate array."""

    _pools: dict[Any, Plan | None] | None = None

    def pool_forward(
        self,
        x: Array,
        geometry: PoolGeometry,
        out: Array | None = None,
        argmax: Array | Literal[False] | None = None,
        *,
        uniforms: Array | None = None,
        rectify: bool = False,
    ) -> tuple[Array, Array | None]:
        mode = geometry.mode
        if mode != "STOCHASTIC" and isinstance(x, np.ndarray) and x.ndim == 4 and 0 not in x.shape:
            placed = mode == "MAX" and argmax is not False
            given = argmax if isinstance(argmax, np.ndarray) else None
            shape = (
                geometry.output_shape(x.shape) if out is None or (placed and given is None) else ()
            )
            y = self.images_like(shape, out, x.dtype)
            places = self.images_like(shape, given, I32) if placed else given
            kernel = average_forward if mode == "AVE" else max_forward_alone
            if placed:
                kernel = max_forward_rectified if rectify else max_forward
            floor = 0.0 if rectify else -math.inf
            if placed == (places is not None) and self._pool(
                kernel, geometry, x, y, places, (y, places), floor
            ):
                return y, places
        return super().pool_forward(x, geometry, out, argmax, uniforms=uniforms, rectify=rectify)

    def pool_backward(
        self, dy: Array, geometry: PoolGeometry, in_shape: Shape,
        argmax: Array | None = None, out: Array | None = None,
    ) -> Array:  # fmt: skip
        average = geometry.mode == "AVE"
        if len(in_shape) == 4 and 0 not in in_shape and (average or argmax is not None):
            dx = self.images_like(tuple(in_shape), out, dy.dtype)
            kernel, places = (
                (average_backward, None) if average else (_scattering(geometry), argmax)
            )
            if dx.shape == tuple(in_shape) and self._pool(kernel, geometry, dx, dy, places, (dx,)):
                return dx
        return super().pool_backward(dy, geometry, in_shape, argmax, out)

    def _pool(
        self, kernel: Generated, geometry: PoolGeometry, x: Array, y: Array, places: Array | None,
        written: tuple[Array | None, ...], floor: float = -math.inf,
    ) -> bool:  # fmt: skip
        """Run the kernel over the large images x, the small ones y and the places. Returns False if
        they do not fit."""
        if self._pools is None:
            self._pools = {}
        key = (
            kernel.name,
            geometry,
            seen(x)[2],
            seen(y)[2],
            None if places is None else seen(places)[2],
        )
        try:
            plan = self._pools[key]
        except KeyError:
            plan = self._pools[key] = _plan(kernel, geometry, x, y, places, written, self.team.size)
        if plan is None or not all(array is None or array.flags.writeable for array in written):
            return False
        block = plan.block
        block.x = address(x)
        block.y = address(y)
        block.floor = floor
        if places is not None:
            block.place = address(places)
        past = plan.past and goes_past(
            LARGE, [address(array) for array in written if array is not None], ()
        )
        self.team.run(plan.kernel.past if past else plan.kernel, block)
        return True


def _scattering(geometry: PoolGeometry) -> Generated:
    """The kernel that sends gradients to the pixels that places name."""
    apart = all(k <= d for k, d in zip(geometry.kernel, geometry.stride, strict=True))
    return places_backward_apart if apart and geometry.pad == (0, 0) else places_backward


def _plan(
    kernel: Generated,
    geometry: PoolGeometry,
    x: Array,
    y: Array,
    places: Array | None,
    written: tuple[Array | None, ...],
    threads: int,
) -> Plan | None:
    arrays = [x, y] if places is None else [x, y, places]
    shape = geometry.output_shape(x.shape)
    if y.shape != shape or any(
        not _images(a, dtypes) for a, dtypes in zip(arrays, (LOADED, LOADED, (I32,)), strict=False)
    ):
        return None
    if places is not None and places.shape != shape:
        return None
    (images, channels, height, width), (_, _, high, wide) = x.shape, shape
    joined = all(images == 1 or a.strides[0] == a.itemsize * channels for a in arrays)
    runs, length = (1, images * channels) if joined else (images, channels)
    shares = None
    if geometry.mode == "AVE":
        rows, columns = (np.array(geometry.counts(axis, x.shape[2 + axis]), F32) for axis in (0, 1))
        shares = 1 / (rows[:, None] * columns)
    block = POOL(
        H=height,
        W=width,
        OH=high,
        OW=wide,
        runs=runs,
        width=length,
        chunk=length if runs > 1 else _chunk(geometry, width, length, high, threads),
        shares=0 if shares is None else address(shares),
        kh=geometry.kernel[0],
        kw=geometry.kernel[1],
        dh=geometry.stride[0],
        dw=geometry.stride[1],
        ph=geometry.pad[0],
        pw=geometry.pad[1],
    )
    for name, array in zip(("x", "y", "place"), arrays, strict=False):
        for axis, stride in (("run", 0), ("row", 2), ("column", 3)):
            setattr(block, f"{name}_{axis}", array.strides[stride])
    outputs = [a for a in written if a is not None]
    steps = [
        step
        for a in outputs
        for axis, step in enumerate(a.strides)
        if axis != 1 and (axis or runs > 1)
    ]
    past = goes_past(sum(a.nbytes for a in outputs), (), steps)
    return Plan(kernel.storing(halves({"x": x, "y": y})), block, shares, past)


def _images(x: Array, dtypes: tuple[np.dtype[Any], ...]) -> bool:
    return x.ndim == 4 and x.dtype in dtypes and (x.strides[1] == x.itemsize or x.shape[1] == 1)


def _chunk(geometry: PoolGeometry, width: int, length: int, rows: int, threads: int) -> int:
    """Numbers of a pixel to treat at a time, so few that kernel rows of them stay in the cache for
    the next row of windows, and that each thread has some of the rows' chunks."""
    parts = -(-FEW * threads // rows) if threads > 1 else 1
    if geometry.kernel[0] > geometry.stride[0]:
        parts = max(parts, -(-geometry.kernel[0] * width * length * 4 // CACHED))
    return _split(length, parts)


def _split(length: int, parts: int) -> int:
    grain = 4 * host().lanes
    chunk = -(-length // parts)
    return chunk + -chunk % grain
