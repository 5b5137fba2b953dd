"""Max and average pooling, forward and backward, as Caffe defines them, and the backward pass of
all pooling by places.

Windows are reduced along the width and then along the height. The place of each maximum is found
afterwards by comparing the windows' pixels with the result: plain arithmetic over whole arrays, no
branch per element. Results follow the memory order of their input. If a NaN lies in a window, the
maximum is NaN and its place is any pixel of the plane.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ops.errors import Array, OpsError, Shape, check_float, check_ndim, check_out, check_shape
from ops.geometry import PoolGeometry, Span

_EVERYTHING = slice(None)
LARGE_WINDOW = 4  # from this many strides on, doubling takes fewer passes than one per kernel index


def forward(
    xp: Any,
    x: Array,
    geometry: PoolGeometry,
    out: Array | None,
    argmax: Array | Literal[False] | None,
) -> tuple[Array, Array | None]:
    """x (N, C, H, W) -> y (N, C, OH, OW); for MAX also the int32 place of each maximum in its H * W
    plane.

    argmax False leaves out the places, which are most of the work of MAX.
    """
    shape = check_forward(x, geometry, out, argmax)
    y: Array = xp.empty_like(x, shape=shape) if out is None else out
    reduce_windows(xp, xp.maximum if geometry.mode == "MAX" else xp.add, x, geometry, y)
    if geometry.mode == "AVE":
        xp.divide(y, _areas(xp, geometry, x.shape, x.dtype), out=y)
        return y, None
    if argmax is False:
        return y, None
    return y, _places(xp, x, y, geometry, xp.empty_like(y, np.int32) if argmax is None else argmax)


def rectified(xp: Any, y: Array, places: Array | None) -> tuple[Array, Array | None]:
    """Cut y at 0 in place, and set the places of results that are not positive to -1."""
    xp.maximum(y, y.dtype.type(0), out=y)
    if places is not None:
        xp.copyto(places, places.dtype.type(-1), where=~(y > 0))
    return y, places


def check_forward(
    x: Array, geometry: PoolGeometry, out: Array | None, argmax: Array | Literal[False] | None
) -> Shape:
    """Check the arguments of a forward pass; returns y's shape."""
    op = "pool_forward"
    check_float(op, x=x)
    check_ndim(op, "x", x, "NCHW")
    shape = geometry.output_shape(x.shape)
    check_out(op, "out", out, shape, x.dtype)
    if argmax is not False:
        check_out(op, "argmax", argmax, shape, np.int32)
    return shape


def reduce_windows(xp: Any, ufunc: Any, x: Array, geometry: PoolGeometry, out: Array) -> None:
    """out = ufunc (xp.maximum or xp.add) over each window; padding does not take part."""
    strips = xp.empty_like(x, shape=(*x.shape[:3], out.shape[3]))
    _reduce(xp, ufunc, x, 3, geometry, strips)
    _reduce(xp, ufunc, strips, 2, geometry, out)


def _at(axis: int, where: slice) -> tuple[slice, ...]:
    return (_EVERYTHING,) * axis + (where,)


def _reduce(xp: Any, ufunc: Any, x: Array, axis: int, geometry: PoolGeometry, out: Array) -> None:
    """out = ufunc over the windows of one axis."""
    size = x.shape[axis]
    outputs = out.shape[axis]
    kernel, stride, pad = (
        pair[axis - 2] for pair in (geometry.kernel, geometry.stride, geometry.pad)
    )
    start = -np.inf if ufunc is xp.maximum else 0.0
    if outputs == 1:  # global pooling among others
        total = xp.max if ufunc is xp.maximum else xp.sum
        total(x[_at(axis, slice(0, min(kernel - pad, size)))], axis=axis, keepdims=True, out=out)
    elif ufunc is xp.maximum and kernel >= LARGE_WINDOW * stride:
        out[...] = _doubled_maximum(xp, x, axis, kernel, (outputs - 1) * stride + kernel, pad)[
            _at(axis, slice(None, None, stride))
        ]
    else:
        _accumulate(ufunc, start, x, axis, geometry.reaches(axis - 2, size), out)


def _accumulate(
    ufunc: Any, start: float, x: Array, axis: int, spans: list[Span], out: Array
) -> None:
    """Take one pass over `out` per kernel index; `out` begins as `start`."""
    (to_0, take_0), *rest = spans
    if rest and to_0 == rest[0][0] == slice(0, out.shape[axis]):
        # saves two passes over `out`
        ufunc(x[_at(axis, take_0)], x[_at(axis, rest[0][1])], out=out)
        spans = spans[2:]
    else:
        out[...] = start
    for to, take in spans:
        part = out[_at(axis, to)]
        ufunc(part, x[_at(axis, take)], out=part)


def _doubled_maximum(xp: Any, x: Array, axis: int, kernel: int, length: int, pad: int) -> Array:
    """Maxima of every window at stride one: windows of 1, 2, 4, ... pixels, then two that together
    make `kernel`.

    About log2(kernel) + 1 passes instead of kernel / stride.
    """
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    wide = xp.full_like(x, -np.inf, shape=shape)
    taken = min(x.shape[axis], length - pad)
    wide[_at(axis, slice(pad, pad + taken))] = x[_at(axis, slice(0, taken))]
    covered = 1
    while covered < kernel:
        step = min(covered, kernel - covered)
        wide = xp.maximum(wide[_at(axis, slice(0, -step))], wide[_at(axis, slice(step, None))])
        covered += step
    return wide  # type: ignore[no-any-return]


def _areas(xp: Any, geometry: PoolGeometry, in_shape: Shape, dtype: Any) -> Array:
    rows, columns = (
        xp.asarray(geometry.counts(axis, in_shape[2 + axis]), dtype) for axis in (0, 1)
    )
    areas: Array = rows[:, None] * columns
    return areas


def _places(xp: Any, x: Array, y: Array, geometry: PoolGeometry, argmax: Array) -> Array:
    """The flat index of the first pixel of each window that equals its maximum."""
    height, width = x.shape[2:]
    beyond = geometry.kernel[0] * width + geometry.kernel[1]
    # holds beyond - offset until the last lines, so that the first pixel wins a maximum()
    argmax[...] = 0
    for i, (to_h, take_h) in enumerate(geometry.reaches(0, height)):
        for j, (to_w, take_w) in enumerate(geometry.reaches(1, width)):
            hit = x[:, :, take_h, take_w] == y[:, :, to_h, to_w]
            part = argmax[:, :, to_h, to_w]
            xp.maximum(
                part, xp.multiply(hit, np.int32(beyond - i * width - j), dtype=np.int32), out=part
            )
    starts = [
        xp.arange(size, dtype=np.int32) * np.int32(stride) - np.int32(pad)
        for size, stride, pad in zip(y.shape[2:], geometry.stride, geometry.pad, strict=True)
    ]
    origin = starts[0][:, None] * np.int32(width) + starts[1] + np.int32(beyond)
    xp.subtract(origin, argmax, out=argmax)
    return xp.clip(argmax, 0, height * width - 1, out=argmax)  # type: ignore[no-any-return]


def backward(
    xp: Any,
    dy: Array,
    geometry: PoolGeometry,
    in_shape: Shape,
    argmax: Array | None,
    out: Array | None,
) -> Array:
    """dy (N, C, OH, OW) -> dx of shape `in_shape`; MAX and STOCHASTIC need the `argmax` of the
    forward pass."""
    check_backward(dy, geometry, in_shape, argmax, out)
    if geometry.mode == "AVE":
        dx: Array = xp.empty_like(dy, shape=in_shape) if out is None else out
        return _spread(xp, dy, geometry, dx)
    assert argmax is not None
    dx = xp.empty_like(argmax, dy.dtype, shape=in_shape) if out is None else out
    return _scatter(xp, dy, geometry, argmax, dx)


def check_backward(
    dy: Array, geometry: PoolGeometry, in_shape: Shape, argmax: Array | None, out: Array | None
) -> None:
    """Check the arguments of a backward pass."""
    op = "pool_backward"
    check_float(op, dy=dy)
    shape = geometry.output_shape(tuple(in_shape))
    check_shape(op, "dy", dy, shape)
    check_out(op, "out", out, in_shape, dy.dtype)
    if geometry.mode == "AVE":
        return
    if argmax is None:
        raise OpsError(
            f"{op}: argmax is missing, expected the int32 array that pool_forward returned"
        )
    check_shape(op, "argmax", argmax, shape)
    if argmax.dtype != np.int32:
        raise OpsError(f"{op}: argmax is {argmax.dtype}, expected int32")


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
    planes = dx.shape[0] * dx.shape[1]
    area = dx.shape[2] * dx.shape[3]
    flat = dx.transpose(order).reshape(-1)
    place = argmax.transpose(order).reshape(planes, -1) + (xp.arange(planes) * area)[:, None]
    values = dy.transpose(order).reshape(-1)
    chosen = argmax.transpose(order).reshape(planes, -1) >= 0
    if not chosen.all():
        place = place[chosen]
        values = values[chosen.reshape(-1)]
    if geometry.overlapping:
        xp.add.at(flat, place.reshape(-1), values)
    else:
        flat[place.reshape(-1)] = values
    return dx
