"""The same numbers in another order of memory: images to rows and back, slices of larger arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ops.errors import Array, OpsError, Shape, check_float, check_out, check_shape


def check_flatten(x: Array, out: Array | None) -> Shape:
    """Check the arguments of `flatten`; returns the result's shape."""
    op = "flatten"
    check_float(op, x=x)
    if x.ndim < 1:
        raise OpsError(f"{op}: x has shape (), expected (N, ...)")
    shape = (x.shape[0], math.prod(x.shape[1:]))
    check_out(op, "out", out, shape, x.dtype)
    return shape


def flatten(xp: Any, x: Array, out: Array | None) -> Array:
    """x (N, ...) -> (N, D), D the product of the other sizes, in the order of the axes."""
    shape = check_flatten(x, out)
    y: Array = xp.empty(shape, x.dtype) if out is None else out
    if y.flags.c_contiguous:
        # one pass: x.reshape would first copy an array that lies in another order
        y.reshape(x.shape)[...] = x
    else:
        y[...] = x.reshape(shape)
    return y


def check_unflatten(dy: Array, in_shape: Shape, out: Array | None) -> None:
    """Check the arguments of `unflatten`."""
    op = "unflatten"
    check_float(op, dy=dy)
    check_shape(op, "dy", dy, (in_shape[0], math.prod(in_shape[1:])))
    check_out(op, "out", out, in_shape, dy.dtype)


def unflatten(dy: Array, in_shape: Shape, empty: Callable[..., Array], out: Array | None) -> Array:
    """dy (N, D) -> (N, ...) of shape `in_shape`."""
    check_unflatten(dy, in_shape, out)
    dx = empty(tuple(in_shape), dy.dtype) if out is None else out
    dx[...] = dy.reshape(in_shape)
    return dx


def copy(x: Array, out: Array) -> Array:
    """out = x."""
    check_out("copy", "out", out, x.shape, x.dtype)
    out[...] = x
    return out
