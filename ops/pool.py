"""Max and average pooling, forward and backward, as Caffe defines them.

Windows are reduced along the width and then along the height. The place of each maximum is found afterwards
by comparing the windows' pixels with the result: plain arithmetic over whole arrays, no branch per element.
Results follow the memory order of their input. Where a NaN lies in a window the maximum is NaN and its place
is any pixel of the plane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.errors import Array, OpsError, Shape, check_float, check_ndim, check_out, check_shape
from ops.geometry import PoolGeometry, Span

_EVERYTHING = slice(None)


def forward(
    xp: Any, x: Array, geometry: PoolGeometry, out: Array | None, argmax: Array | None
) -> tuple[Array, Array | None]:
    """x (N, C, H, W) -> y (N, C, OH, OW); for MAX also the int32 place of each maximum in its H * W plane."""
    check_float("pool_forward", x=x)
    check_ndim("pool_forward", "x", x, "NCHW")
    shape = geometry.output_shape(x.shape)
    check_out("pool_forward", "out", out, shape, x.dtype)
    check_out("pool_forward", "argmax", argmax, shape, np.int32)
    y: Array = xp.empty_like(x, shape=shape) if out is None else out
    height, width = x.shape[2:]
    ufunc, start = (xp.maximum, -np.inf) if geometry.mode == "MAX" else (xp.add, 0.0)
    strips = xp.empty_like(x, shape=(*x.shape[:3], shape[3]))
    _reduce(ufunc, start, x, 3, geometry.reaches(1, width), strips)
    _reduce(ufunc, start, strips, 2, geometry.reaches(0, height), y)
    if geometry.mode == "AVE":
        xp.divide(y, _areas(xp, geometry, x.shape, x.dtype), out=y)
        return y, None
    return y, _places(xp, x, y, geometry, xp.empty_like(y, np.int32) if argmax is None else argmax)


def _at(axis: int, where: slice) -> tuple[slice, ...]:
    return (_EVERYTHING,) * axis + (where,)


def _reduce(ufunc: Any, start: float, x: Array, axis: int, spans: list[Span], out: Array) -> None:
    """out = ufunc over the windows of one axis, `start` where nothing was read yet."""
    (to_0, take_0), *rest = spans
    if rest and to_0 == rest[0][0] == slice(0, out.shape[axis]):
        ufunc(x[_at(axis, take_0)], x[_at(axis, rest[0][1])], out=out)  # saves two passes over `out`
        spans = spans[2:]
    else:
        out[...] = start
    for to, take in spans:
        part = out[_at(axis, to)]
        ufunc(part, x[_at(axis, take)], out=part)


def _areas(xp: Any, geometry: PoolGeometry, in_shape: Shape, dtype: Any) -> Array:
    rows, columns = (xp.asarray(geometry.counts(axis, in_shape[2 + axis]), dtype) for axis in (0, 1))
    areas: Array = rows[:, None] * columns
    return areas


def _places(xp: Any, x: Array, y: Array, geometry: PoolGeometry, argmax: Array) -> Array:
    """The flat index of the first pixel of each window that equals its maximum."""
    height, width = x.shape[2:]
    beyond = geometry.kernel[0] * width + geometry.kernel[1]
    argmax[...] = 0  # holds beyond - offset until the last lines, so that the first pixel wins a maximum()
    for i, (to_h, take_h) in enumerate(geometry.reaches(0, height)):
        for j, (to_w, take_w) in enumerate(geometry.reaches(1, width)):
            hit = x[:, :, take_h, take_w] == y[:, :, to_h, to_w]
            part = argmax[:, :, to_h, to_w]
            xp.maximum(part, xp.multiply(hit, np.int32(beyond - i * width - j), dtype=np.int32), out=part)
    starts = [
        xp.arange(size, dtype=np.int32) * np.int32(stride) - np.int32(pad)
        for size, stride, pad in zip(y.shape[2:], geometry.stride, geometry.pad, strict=True)
    ]
    origin = starts[0][:, None] * np.int32(width) + starts[1] + np.int32(beyond)
    xp.subtract(origin, argmax, out=argmax)
    return xp.clip(argmax, 0, height * width - 1, out=argmax)  # type: ignore[no-any-return]


def backward(
    xp: Any, dy: Array, geometry: PoolGeometry, in_shape: Shape, argmax: Array | None, out: Array | None
) -> Array:
    """dy (N, C, OH, OW) -> dx of shape `in_shape`; MAX needs the `argmax` of the forward pass."""
    op = "pool_backward"
    check_float(op, dy=dy)
    shape = geometry.output_shape(tuple(in_shape))
    check_shape(op, "dy", dy, shape)
    check_out(op, "out", out, in_shape, dy.dtype)
    if geometry.mode == "AVE":
        dx: Array = xp.empty_like(dy, shape=in_shape) if out is None else out
        return _spread(xp, dy, geometry, dx)
    if argmax is None:
        raise OpsError(f"{op}: argmax is missing, expected the int32 array that pool_forward returned")
    check_shape(op, "argmax", argmax, shape)
    if argmax.dtype != np.int32:
        raise OpsError(f"{op}: argmax is {argmax.dtype}, expected int32")
    dx = xp.empty_like(argmax, dy.dtype, shape=in_shape) if out is None else out
    return _scatter(xp, dy, geometry, argmax, dx)


def _spread(xp: Any, dy: Array, geometry: PoolGeometry, dx: Array) -> Array:
    height, width = dx.shape[2:]
    share = dy / _areas(xp, geometry, dx.shape, dy.dtype)
    strips = xp.zeros_like(dx, shape=(*dx.shape[:3], dy.shape[3]))
    for to, take in geometry.reaches(0, height):
        strips[:, :, take] += share[:, :, to]
    dx[...] = 0
    for to, take in geometry.reaches(1, width):
        dx[:, :, :, take] += strips[:, :, :, to]
    return dx


def _plane_order(dx: Array) -> tuple[int, int, int, int] | None:
    """The order of axes in which dx is one contiguous block of planes, or None."""
    for order in ((0, 1, 2, 3), (1, 0, 2, 3)):
        if dx.transpose(order).flags.c_contiguous:
            return order
    return None


def _scatter(xp: Any, dy: Array, geometry: PoolGeometry, argmax: Array, dx: Array) -> Array:
    order = _plane_order(dx)
    if order is None:
        dx[...] = _scatter(xp, dy, geometry, argmax, xp.empty(dx.shape, dx.dtype))
        return dx
    dx[...] = 0
    planes, area = dx.shape[0] * dx.shape[1], dx.shape[2] * dx.shape[3]
    flat = dx.transpose(order).reshape(-1)
    place = argmax.transpose(order).reshape(planes, -1) + (xp.arange(planes) * area)[:, None]
    values = dy.transpose(order).reshape(-1)
    if geometry.overlapping:
        xp.add.at(flat, place.reshape(-1), values)
    else:
        flat[place.reshape(-1)] = values
    return dx
