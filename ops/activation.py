"""Element-wise activations, forward and backward. Each may work in place: `out` may be its own input."""

from __future__ import annotations

from typing import Any

from ops.errors import Array, check_float, check_out, check_shape


def relu_forward(xp: Any, x: Array, negative_slope: float, out: Array | None) -> Array:
    """y = max(x, 0) + negative_slope * min(x, 0), any shape (Caffe's ReLU)."""
    check_float("relu_forward", x=x)
    check_out("relu_forward", "out", out, x.shape, x.dtype)
    below = xp.multiply(xp.minimum(x, 0), float(negative_slope)) if negative_slope else None
    y: Array = xp.maximum(x, 0, out=out)
    if below is not None:
        y += below
    return y


def relu_backward(xp: Any, dy: Array, y_or_x: Array, negative_slope: float, out: Array | None) -> Array:
    """dx = dy where y_or_x > 0, else negative_slope * dy. The input x always serves, y for slopes >= 0."""
    op = "relu_backward"
    check_float(op, dy=dy, y_or_x=y_or_x)
    check_shape(op, "y_or_x", y_or_x, dy.shape)
    check_out(op, "out", out, dy.shape, dy.dtype)
    factor = y_or_x > 0
    if negative_slope:
        factor = xp.where(factor, dy.dtype.type(1), dy.dtype.type(negative_slope))
    dx: Array = xp.multiply(dy, factor, out=out)
    return dx
