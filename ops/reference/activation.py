"""Activations with kinks, forward and backward: ReLU, PReLU, ELU, Threshold, Clip.

Each may work in place: `out` may be its own input. Smooth functions are in pointwise.
"""

from __future__ import annotations

from typing import Any

from ops.errors import Array, OpsError, Shape, check_alike, check_float, check_out, check_shape


def relu_forward(xp: Any, x: Array, negative_slope: float, out: Array | None) -> Array:
    """y = max(x, 0) + negative_slope * min(x, 0), any shape (Caffe's ReLU)."""
    check_float("relu_forward", x=x)
    check_out("relu_forward", "out", out, x.shape, x.dtype)
    below = xp.multiply(xp.minimum(x, 0), float(negative_slope)) if negative_slope else None
    y: Array = xp.maximum(x, 0, out=out)
    if below is not None:
        y += below
    return y


def relu_backward(
    xp: Any, dy: Array, y_or_x: Array, negative_slope: float, out: Array | None
) -> Array:
    """dx = dy where y_or_x > 0, else negative_slope * dy. The input x always serves; the result y
    serves if the slope is >= 0."""
    op = "relu_backward"
    check_float(op, dy=dy, y_or_x=y_or_x)
    check_shape(op, "y_or_x", y_or_x, dy.shape)
    check_out(op, "out", out, dy.shape, dy.dtype)
    factor = y_or_x > 0
    if negative_slope:
        factor = xp.where(factor, dy.dtype.type(1), dy.dtype.type(negative_slope))
    dx: Array = xp.multiply(dy, factor, out=out)
    return dx


def prelu_forward(xp: Any, x: Array, slope: Array, out: Array | None) -> Array:
    """y = max(x, 0) + slope * min(x, 0), x (N, C, ...), slope (C,) or one element for all channels
    (Caffe)."""
    op = "prelu_forward"
    check_alike(op, out, x=x)
    slope = _by_channel(op, slope, x)
    below = xp.minimum(x, 0)
    below *= slope
    y: Array = xp.maximum(x, 0, out=out)
    y += below
    return y


def prelu_backward_data(xp: Any, dy: Array, x: Array, slope: Array, out: Array | None) -> Array:
    """dx = dy where x > 0, else slope * dy."""
    op = "prelu_backward_data"
    check_alike(op, out, dy=dy, x=x)
    factor = xp.where(x > 0, dy.dtype.type(1), _by_channel(op, slope, x))
    dx: Array = xp.multiply(dy, factor, out=out)
    return dx


def prelu_backward_slope(
    xp: Any, dy: Array, x: Array, slope_shape: Shape, out: Array | None
) -> Array:
    """The slopes' gradient: dy * min(x, 0), summed over all elements that share a slope."""
    op = "prelu_backward_slope"
    check_alike(op, None, dy=dy, x=x)
    check_out(op, "out", out, slope_shape, x.dtype)
    dslope: Array = xp.empty(slope_shape, x.dtype) if out is None else out
    _by_channel(op, dslope, x)
    share = xp.minimum(x, 0)
    share *= dy
    axes = tuple(a for a in range(x.ndim) if a != 1 or dslope.size == 1)
    dslope[...] = share.sum(axis=axes).reshape(slope_shape)
    return dslope


def _by_channel(op: str, slope: Array, x: Array) -> Array:
    """The slopes as an array that broadcasts over (N, C, ...)."""
    check_float(op, x=x, slope=slope)
    if x.ndim < 2:
        raise OpsError(f"{op}: x has shape {tuple(x.shape)}, expected (N, C, ...)")
    if slope.size != 1 and tuple(slope.shape) != (x.shape[1],):
        raise OpsError(
            f"{op}: slope has shape {tuple(slope.shape)}, expected ({x.shape[1]},) or one element"
        )
    return slope.reshape((-1,) + (1,) * (x.ndim - 2))


def elu_forward(xp: Any, x: Array, alpha: float, out: Array | None) -> Array:
    """y = x where x > 0, else alpha * (exp(x) - 1) (Clevert et al., Caffe's ELU)."""
    check_alike("elu_forward", out, x=x)
    below = xp.minimum(x, 0)
    xp.expm1(below, out=below)
    below *= float(alpha)
    y: Array = xp.maximum(x, 0, out=out)
    y += below
    return y


def elu_backward(xp: Any, dy: Array, x: Array, y: Array, alpha: float, out: Array | None) -> Array:
    """dx = dy where x > 0, else dy * (y + alpha). After a forward pass in place, y can stand for x
    if alpha >= 0."""
    check_alike("elu_backward", out, dy=dy, x=x, y=y)
    factor = xp.where(x > 0, dy.dtype.type(1), y + float(alpha))
    dx: Array = xp.multiply(dy, factor, out=out)
    return dx


def threshold_forward(xp: Any, x: Array, threshold: float, out: Array | None) -> Array:
    """y = 1 where x > threshold, else 0 (Caffe's Threshold; it has no gradient)."""
    check_alike("threshold_forward", out, x=x)
    y: Array = xp.empty_like(x) if out is None else out
    y[...] = x > float(threshold)
    return y


def clip_forward(xp: Any, x: Array, least: float, most: float, out: Array | None) -> Array:
    """y = x, but at least `least` and at most `most` (Caffe's Clip)."""
    check_alike("clip_forward", out, x=x)
    y: Array = xp.clip(x, float(least), float(most), out=out)
    return y


def clip_backward(
    xp: Any, dy: Array, x: Array, least: float, most: float, out: Array | None
) -> Array:
    """dx = dy where least <= x <= most, else 0."""
    check_alike("clip_backward", out, dy=dy, x=x)
    inside = (x >= float(least)) & (x <= float(most))
    dx: Array = xp.multiply(dy, inside, out=out)
    return dx
