"""Stochastic pooling, forward (Zeiler and Fergus 2013, as Caffe does it). Backward is pool.backward
with the places.

Activations are taken as weights and must not be negative (a ReLU comes before). The caller passes
the random numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.errors import Array, Shape, check_float, check_shape
from ops.geometry import PoolGeometry
from ops.reference.pool import check_forward, reduce_windows


def average(xp: Any, x: Array, geometry: PoolGeometry, out: Array | None) -> Array:
    """The test phase: each window's sum of squares divided by its sum, 0 if the sum is not
    positive."""
    shape = check_forward(x, geometry, out, False)
    weights = xp.empty_like(x, shape=shape)
    y = xp.empty_like(x, shape=shape) if out is None else out
    reduce_windows(xp, xp.add, x, geometry, weights)
    reduce_windows(xp, xp.add, xp.multiply(x, x), geometry, y)
    positive = weights > 0
    xp.divide(y, xp.where(positive, weights, weights.dtype.type(1)), out=y)
    xp.copyto(y, 0, where=~positive)
    return y


def sample(
    xp: Any,
    x: Array,
    uniforms: Array,
    geometry: PoolGeometry,
    out: Array | None,
    argmax: Array | None,
) -> tuple[Array, Array]:
    """The training phase: the first pixel, row by row, where the running sum reaches uniforms * the
    window's sum.

    uniforms (N, C, OH, OW) in [0, 1) -> y and the int32 place of each chosen pixel in its H * W
    plane.
    """
    shape = check_forward(x, geometry, out, argmax)
    check_uniforms(x, uniforms, shape)
    return _choose(xp, x, uniforms, geometry, shape, out, argmax)


def check_uniforms(x: Array, uniforms: Array, shape: Shape) -> None:
    """Check that the random numbers have the output's shape and x's dtype."""
    check_float("pool_forward", x=x, uniforms=uniforms)
    check_shape("pool_forward", "uniforms", uniforms, shape)


def _choose(
    xp: Any,
    x: Array,
    uniforms: Array,
    geometry: PoolGeometry,
    shape: Shape,
    out: Array | None,
    argmax: Array | None,
) -> tuple[Array, Array]:
    """Visit the pixels in one order twice. The first round gives the sums, by the same additions as
    the second."""
    goal: Array = xp.zeros_like(x, shape=shape)
    for view, to, _ in _pixels(x, geometry):
        goal[to] += view
    goal *= uniforms
    running = xp.zeros_like(goal)
    open_ = xp.ones_like(goal, dtype=bool)
    y: Array = xp.empty_like(goal) if out is None else out
    place: Array = xp.empty_like(goal, dtype=np.int32) if argmax is None else argmax
    starts = [
        xp.arange(n, dtype=np.int32) * np.int32(s)
        for n, s in zip(shape[2:], geometry.stride, strict=True)
    ]
    origin = starts[0][:, None] * np.int32(x.shape[3]) + starts[1]
    y[...] = 0
    place[...] = origin
    for view, to, offset in _pixels(x, geometry):
        running[to] += view
        here = open_[to] & (running[to] >= goal[to])
        xp.copyto(y[to], view, where=here)
        xp.copyto(place[to], origin[to[2:]] + np.int32(offset), where=here)
        open_[to] &= ~here
    return y, place


def _pixels(x: Array, geometry: PoolGeometry) -> list[tuple[Array, tuple[slice, ...], int]]:
    """Return (pixels, outputs whose window has them, offset in the plane from the window's first)
    per kernel index."""
    height, width = x.shape[2:]
    rows = geometry.reaches(0, height)
    columns = geometry.reaches(1, width)
    return [
        (x[:, :, take_h, take_w], (slice(None), slice(None), to_h, to_w), i * width + j)
        for i, (to_h, take_h) in enumerate(rows)
        for j, (to_w, take_w) in enumerate(columns)
    ]
