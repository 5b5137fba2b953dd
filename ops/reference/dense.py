"""Fully connected layers (Caffe's InnerProduct), forward and backward: three matrix products and a
bias.

Inputs are flat, (N, D): the caller reshapes images into rows.
"""

from __future__ import annotations

from typing import Any

from ops.errors import Array, OpsError, check_float, check_ndim, check_out, check_shape
from ops.reference.activation import relu_forward


def _check_inner(op: str, left: str, found: int, expected: int) -> None:
    if found != expected:
        raise OpsError(f"{op}: {left} has {found} columns, expected {expected} as the weights say")


def check_forward(x: Array, w: Array, b: Array | None, out: Array | None) -> None:
    """Check that x (N, D), w (O, D), b (O,) or None fit together, and that out can hold y (N,
    O)."""
    op = "dense_forward"
    check_float(op, x=x, w=w, b=b)
    check_ndim(op, "x", x, "ND")
    check_ndim(op, "w", w, "OD")
    _check_inner(op, "x", x.shape[1], w.shape[1])
    check_shape(op, "b", b, w.shape[:1])
    check_out(op, "out", out, (x.shape[0], w.shape[0]), x.dtype)


def forward(
    xp: Any, x: Array, w: Array, b: Array | None, out: Array | None, rectify: bool = False
) -> Array:
    """x (N, D), w (O, D), b (O,) or None -> y (N, O) = x w' + b; max(y, 0) with `rectify`."""
    check_forward(x, w, b, out)
    y: Array = xp.matmul(x, w.T, out=out)
    if b is not None:
        y += b
    return relu_forward(xp, y, 0.0, y) if rectify else y


def check_backward_data(dy: Array, w: Array, out: Array | None) -> None:
    """Check that dy (N, O) and w (O, D) fit together, and that out can hold dx (N, D)."""
    op = "dense_backward_data"
    check_float(op, dy=dy, w=w)
    check_ndim(op, "dy", dy, "NO")
    check_ndim(op, "w", w, "OD")
    _check_inner(op, "dy", dy.shape[1], w.shape[0])
    check_out(op, "out", out, (dy.shape[0], w.shape[1]), dy.dtype)


def backward_data(xp: Any, dy: Array, w: Array, out: Array | None) -> Array:
    """dy (N, O), w (O, D) -> dx (N, D) = dy w."""
    check_backward_data(dy, w, out)
    dx: Array = xp.matmul(dy, w, out=out)
    return dx


def check_backward_weights(x: Array, dy: Array, out_w: Array | None, out_b: Array | None) -> None:
    """Check that x (N, D) and dy (N, O) fit together, and that the destinations can hold dw (O, D)
    and db (O,)."""
    op = "dense_backward_weights"
    check_float(op, x=x, dy=dy)
    check_ndim(op, "x", x, "ND")
    check_ndim(op, "dy", dy, "NO")
    check_shape(op, "dy", dy, (x.shape[0], dy.shape[1]))
    check_out(op, "out_w", out_w, (dy.shape[1], x.shape[1]), x.dtype)
    check_out(op, "out_b", out_b, dy.shape[1:], x.dtype)


def backward_weights(
    xp: Any, x: Array, dy: Array, bias: bool, out_w: Array | None, out_b: Array | None
) -> tuple[Array, Array | None]:
    """x (N, D), dy (N, O) -> dw (O, D) = dy' x and, with `bias`, db (O,), both summed over N."""
    check_backward_weights(x, dy, out_w, out_b)
    dw: Array = xp.matmul(dy.T, x, out=out_w)
    if not bias:
        return dw, None
    db: Array = xp.sum(dy, axis=0, out=out_b)
    return dw, db
