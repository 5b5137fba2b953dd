"""Scale and bias along some axes (Caffe's Scale and Bias layers), forward and backward.

Scale and bias have the shape of a run of x's axes that starts at `axis`; with no axes they are one
number.
"""

from __future__ import annotations

from typing import Any

from ops.errors import (
    Array,
    OpsError,
    Shape,
    check_alike,
    check_axis,
    check_float,
    check_out,
    check_shape,
)


def _lined_up(op: str, name: str, part: Array, x: Array, axis: int) -> Array:
    """`part` with axes of size one, so that it broadcasts over x."""
    check_float(op, x=x, **{name: part})
    return part.reshape(_lined_up_shape(op, name, part.shape, x, axis))


def _lined_up_shape(op: str, name: str, part: Shape, x: Array, axis: int) -> Shape:
    start = check_axis(op, axis, x.ndim) if part else 0
    end = start + len(part)
    if tuple(x.shape[start:end]) != tuple(part):
        raise OpsError(
            f"{op}: {name} has shape {tuple(part)}, expected axes {start}.. of x, {tuple(x.shape)}"
        )
    return (1,) * start + tuple(part) + (1,) * (x.ndim - end)


def scale_forward(
    xp: Any, x: Array, gamma: Array, beta: Array | None, axis: int, out: Array | None
) -> Array:
    """y = x * gamma (+ beta), gamma and beta along x's axes from `axis`. out may be x."""
    op = "scale_forward"
    check_alike(op, out, x=x)
    y: Array = xp.multiply(x, _lined_up(op, "gamma", gamma, x, axis), out=out)
    if beta is not None:
        check_shape(op, "beta", beta, gamma.shape)
        y += _lined_up(op, "beta", beta, x, axis)
    return y


def scale_backward_data(xp: Any, dy: Array, gamma: Array, axis: int, out: Array | None) -> Array:
    """dx = dy * gamma. out may be dy."""
    op = "scale_backward_data"
    check_alike(op, out, dy=dy)
    dx: Array = xp.multiply(dy, _lined_up(op, "gamma", gamma, dy, axis), out=out)
    return dx


def scale_backward_weights(
    xp: Any,
    x: Array,
    dy: Array,
    shape: Shape,
    axis: int,
    bias: bool,
    out_gamma: Array | None,
    out_beta: Array | None,
) -> tuple[Array, Array | None]:
    """dgamma of `shape`: dy * x summed over all elements that one number scales. dbeta is the same
    sum of dy, or None without `bias`."""
    op = "scale_backward_weights"
    check_alike(op, None, x=x, dy=dy)
    dgamma = _summed(xp, op, xp.multiply(x, dy), shape, axis, out_gamma)
    return dgamma, _summed(xp, op, dy, shape, axis, out_beta) if bias else None


def bias_forward(xp: Any, x: Array, b: Array, axis: int, out: Array | None) -> Array:
    """y = x + b, b along x's axes from `axis`. out may be x."""
    check_alike("bias_forward", out, x=x)
    y: Array = xp.add(x, _lined_up("bias_forward", "b", b, x, axis), out=out)
    return y


def bias_backward(xp: Any, dy: Array, shape: Shape, axis: int, out: Array | None) -> Array:
    """db of `shape`: dy summed over all elements that one number was added to."""
    check_float("bias_backward", dy=dy)
    return _summed(xp, "bias_backward", dy, shape, axis, out)


def _summed(xp: Any, op: str, dy: Array, shape: Shape, axis: int, out: Array | None) -> Array:
    _lined_up_shape(op, "gradient", shape, dy, axis)
    check_out(op, "out", out, shape, dy.dtype)
    start = axis % dy.ndim if shape else 0
    kept = range(start, start + len(shape))
    total: Array = xp.empty(shape, dy.dtype) if out is None else out
    total[...] = dy.sum(axis=tuple(a for a in range(dy.ndim) if a not in kept))
    return total
