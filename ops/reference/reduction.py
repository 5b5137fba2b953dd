"""Reductions of trailing axes, places of the largest values, sums per channel and of all (Caffe's
Reduction, ArgMax).

These functions return arrays and know no labels; losses are elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.errors import (
    Array,
    OpsError,
    check_alike,
    check_axis,
    check_choice,
    check_float,
    check_out,
    check_shape,
)

OPERATIONS = ("SUM", "ASUM", "SUMSQ", "MEAN")
NORM_BLOCK = 1 << 20  # elements squared at a time: 8 MB of float64


def forward(xp: Any, x: Array, operation: str, axis: int, coeff: float, out: Array | None) -> Array:
    """coeff * (sum, sum of |x|, sum of x^2 or mean) of all axes from `axis` on -> shape
    x.shape[:axis]."""
    op = "reduction_forward"
    start = _start(op, x, operation, axis)
    check_out(op, "out", out, x.shape[:start], x.dtype)
    values = {"ASUM": xp.abs, "SUMSQ": xp.square}.get(operation, lambda v: v)(x)
    y: Array = xp.empty(x.shape[:start], x.dtype) if out is None else out
    y[...] = values.sum(axis=tuple(range(start, x.ndim)))
    y *= _factor(x, operation, start, coeff)
    return y


def backward(
    xp: Any, dy: Array, x: Array, operation: str, axis: int, coeff: float, out: Array | None
) -> Array:
    """dy of shape x.shape[:axis] -> dx of x's shape. out may be x."""
    op = "reduction_backward"
    start = _start(op, x, operation, axis)
    check_alike(op, out, x=x)
    check_float(op, x=x, dy=dy)
    check_shape(op, "dy", dy, x.shape[:start])
    scaled = dy.reshape(dy.shape + (1,) * (x.ndim - start)) * _factor(x, operation, start, coeff)
    if operation == "ASUM":
        dx: Array = xp.multiply(xp.sign(x), scaled, out=out)
    elif operation == "SUMSQ":
        dx = xp.multiply(x, scaled * 2, out=out)
    else:
        dx = xp.empty_like(x) if out is None else out
        dx[...] = scaled
    return dx


def _start(op: str, x: Array, operation: str, axis: int) -> int:
    check_float(op, x=x)
    check_choice(f"{op}: operation", operation, OPERATIONS)
    return check_axis(op, axis, x.ndim)


def _factor(x: Array, operation: str, start: int, coeff: float) -> float:
    return float(coeff) / (math.prod(x.shape[start:]) if operation == "MEAN" else 1)


def channel_sums(xp: Any, x: Array, out: Array | None) -> Array:
    """x (N, C, ...) -> (C,), summed over all other axes."""
    op = "channel_sums"
    check_float(op, x=x)
    if x.ndim < 2:
        raise OpsError(f"{op}: x has shape {tuple(x.shape)}, expected (N, C, ...)")
    check_out(op, "out", out, x.shape[1:2], x.dtype)
    total: Array = xp.empty(x.shape[1:2], x.dtype) if out is None else out
    total[...] = x.sum(axis=tuple(a for a in range(x.ndim) if a != 1))
    return total


def arg_max(
    xp: Any, x: Array, top_k: int, out_max_val: bool, axis: int | None, out: Array | None
) -> Array:
    """The places of the `top_k` largest values, best first, as numbers of x's dtype (Caffe's
    ArgMax).

    Without an axis the search covers all axes but axis 0. The result is (N, 1, top_k), or with
    `out_max_val` (N, 2, top_k), places then values. With an axis the result has x's shape with
    top_k there, and holds places, or with `out_max_val` values. Of equal values the later place is
    first, as in Caffe, which sorts pairs.
    """
    op = "arg_max"
    check_float(op, x=x)
    if x.ndim < 1 or x.size == 0:
        raise OpsError(
            f"{op}: x has shape {tuple(x.shape)}, expected at least one axis and none empty"
        )
    along = -1 if axis is None else check_axis(op, axis, x.ndim)
    rows = x.reshape(len(x), -1) if axis is None else x
    if not 1 <= top_k <= rows.shape[along]:
        raise OpsError(
            f"{op}: top_k is {top_k}, expected 1 to {rows.shape[along]}, the number of values"
        )
    places = _places(xp, rows, top_k, along)
    values = xp.take_along_axis(rows, places, along) if out_max_val else None
    if axis is None:
        parts = [places.astype(x.dtype)] if values is None else [places.astype(x.dtype), values]
        result = xp.stack(parts, axis=1)
    else:
        result = places.astype(x.dtype) if values is None else values
    return _delivered(op, result, out)


def _places(xp: Any, rows: Array, top_k: int, axis: int) -> Array:
    reverse = (slice(None),) * (axis % rows.ndim) + (slice(None, None, -1),)
    last = rows.shape[axis] - 1
    if top_k == 1:
        best: Array = last - xp.expand_dims(xp.argmax(rows[reverse], axis=axis), axis)
        return best
    order = xp.argsort(rows, axis=axis, kind="stable")
    return order[reverse][(slice(None),) * (axis % rows.ndim) + (slice(0, top_k),)]  # type: ignore[no-any-return]


def _delivered(op: str, result: Array, out: Array | None) -> Array:
    if out is None:
        return result
    check_out(op, "out", out, result.shape, result.dtype)
    out[...] = result
    return out


def l2_norm_squared(xp: Any, x: Array) -> float:
    """The sum of squares of all elements, taken in float64."""
    check_float("l2_norm_squared", x=x)
    flat = x.reshape(-1)
    parts = (flat[start : start + NORM_BLOCK] for start in range(0, flat.size, NORM_BLOCK))
    return math.fsum(float(xp.sum(xp.square(part, dtype=np.float64))) for part in parts)
