"""Rows of a table looked up by number, and the gradient of the table (Caffe's Embed)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ops.errors import Array, OpsError, Shape, check_float, check_ndim, check_out, check_shape


def forward(xp: Any, index: Array, w: Array, b: Array | None, out: Array | None) -> Array:
    """index of any shape, whole numbers in any dtype; w (rows, O), b (O,) or None -> y
    (*index.shape, O)."""
    op = "embed_forward"
    check_float(op, w=w, b=b)
    check_ndim(op, "w", w, "RO")
    check_shape(op, "b", b, w.shape[1:])
    rows = read_rows(xp, op, index, w.shape[0])
    check_out(op, "out", out, (*rows.shape, w.shape[1]), w.dtype)
    y: Array = xp.empty((*rows.shape, w.shape[1]), w.dtype) if out is None else out
    y[...] = w[rows]
    if b is not None:
        y += b
    return y


def read_rows(xp: Any, op: str, index: Array, rows: int) -> Array:
    """Return the index as integers. Raises OpsError that names the first number that is not a
    row."""
    index = xp.asarray(index)
    wrong = ~((index >= 0) & (index < rows) & (index == xp.floor(index)))
    if wrong.any():
        found = index[wrong].reshape(-1)[0].item()
        raise OpsError(f"{op}: an index is {found}, expected a whole number from 0 to {rows - 1}")
    return index.astype(np.int64)


def check_backward(
    op: str, index: Array, dy: Array, w_shape: Shape, out_w: Array | None, out_b: Array | None
) -> None:
    """Check that the arguments of a table's gradient fit together."""
    check_float(op, dy=dy)
    if len(w_shape) != 2:
        raise OpsError(f"{op}: w_shape is {tuple(w_shape)}, expected (rows, outputs)")
    check_shape(op, "dy", dy, (*index.shape, w_shape[1]))
    check_out(op, "out_w", out_w, w_shape, dy.dtype)
    check_out(op, "out_b", out_b, w_shape[1:], dy.dtype)


def backward_weights(
    xp: Any,
    index: Array,
    dy: Array,
    w_shape: Shape,
    sum_rows: Callable[[Array, Array, Array], None],
    bias: bool,
    out_w: Array | None,
    out_b: Array | None,
) -> tuple[Array, Array | None]:
    """dy (*index.shape, O) -> dw of shape `w_shape`, each row the sum of its dy, and db (O,) or
    None."""
    op = "embed_backward_weights"
    index = xp.asarray(index)
    check_backward(op, index, dy, w_shape, out_w, out_b)
    rows = read_rows(xp, op, index, w_shape[0]).reshape(-1)
    dy_rows = dy.reshape(-1, w_shape[1])
    dw: Array = xp.empty(w_shape, dy.dtype) if out_w is None else out_w
    sum_rows(rows, dy_rows, dw)
    db: Array | None = xp.sum(dy_rows, axis=0, out=out_b) if bias else None
    return dw, db


def sum_rows(xp: Any, rows: Array, dy_rows: Array, dw: Array) -> None:
    """dw[r] = the sum of dy_rows where rows is r, in their order: sorting brings equal rows
    together."""
    dw[...] = 0
    if rows.size == 0:
        return
    order = xp.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = xp.concatenate(
        [xp.zeros(1, np.int64), xp.flatnonzero(ordered[1:] != ordered[:-1]) + 1]
    )
    dw[ordered[starts]] = xp.add.reduceat(dy_rows[order], starts, axis=0)
