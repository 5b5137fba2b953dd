"""Several arrays of one shape made into one, element by element: product, weighted sum, maximum
(Caffe's Eltwise)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ops.errors import Array, OpsError, check_alike, check_choice, check_out, check_shape

OPERATIONS = ("PROD", "SUM", "MAX")


def _check(
    op: str,
    inputs: Sequence[Array],
    operation: str,
    coeffs: Sequence[float] | None,
    out: Array | None,
) -> None:
    check_choice(f"{op}: operation", operation, OPERATIONS)
    if not inputs:
        raise OpsError(f"{op}: no inputs, expected at least one")
    check_alike(op, out, **{f"input {k}": x for k, x in enumerate(inputs)})
    if coeffs is not None and operation != "SUM":
        raise OpsError(f"{op}: coeffs are given with {operation}, expected them with SUM only")
    if coeffs is not None and len(coeffs) != len(inputs):
        raise OpsError(
            f"{op}: {len(coeffs)} coeffs for {len(inputs)} inputs, expected one for each"
        )


def forward(
    xp: Any, inputs: Sequence[Array], operation: str, coeffs: Sequence[float] | None,
    out: Array | None, which: Array | None,
) -> tuple[Array, Array | None]:  # fmt: skip
    """Return y and, for MAX, the int32 number of the input that won. out may be the first input.

    Among equal maxima the second input beats the first and any earlier one beats the third and
    later (Caffe).
    """
    op = "eltwise_forward"
    _check(op, inputs, operation, coeffs, out)
    if operation == "SUM":
        return _weighted_sum(xp, inputs, coeffs, out), None
    check_out(op, "which", which, inputs[0].shape, np.int32)
    if operation == "MAX":
        return _maximum(xp, inputs, out, which)
    y: Array = xp.multiply(inputs[0], 1.0, out=out)
    for x in inputs[1:]:
        y *= x
    return y, None


def _weighted_sum(
    xp: Any, inputs: Sequence[Array], coeffs: Sequence[float] | None, out: Array | None
) -> Array:
    factors = [1.0] * len(inputs) if coeffs is None else [float(c) for c in coeffs]
    y: Array = xp.multiply(inputs[0], factors[0], out=out)
    for x, factor in zip(inputs[1:], factors[1:], strict=True):
        y += x if factor == 1 else x * factor
    return y


def _maximum(
    xp: Any, inputs: Sequence[Array], out: Array | None, which: Array | None
) -> tuple[Array, Array]:
    winner: Array = xp.empty_like(inputs[0], np.int32) if which is None else which
    winner[...] = 0
    y: Array = xp.multiply(inputs[0], 1.0, out=out)
    for k, x in enumerate(inputs[1:], 1):
        won = x >= y if k == 1 else x > y
        xp.copyto(winner, k, where=won)
        xp.copyto(y, x, where=won)
    return y, winner


def backward(
    xp: Any, dy: Array, inputs: Sequence[Array], operation: str, coeffs: Sequence[float] | None,
    which: Array | None, outs: Sequence[Array | None] | None,
) -> list[Array]:  # fmt: skip
    """One gradient per input: dy times the other inputs (PROD), times its coefficient (SUM), where
    it won (MAX)."""
    op = "eltwise_backward"
    _check(op, [dy, *inputs], "PROD", None, None)
    _check(op, inputs, operation, coeffs, None)
    if operation == "MAX" and (which is None or which.dtype != np.int32):
        raise OpsError(
            f"{op}: which is {which if which is None else which.dtype}, expected "
            "forward's int32 array"
        )
    check_shape(op, "which", which, dy.shape)
    places = [None] * len(inputs) if outs is None else outs
    if len(places) != len(inputs):
        raise OpsError(f"{op}: {len(places)} outs for {len(inputs)} inputs, expected one for each")
    for k, out in enumerate(places):
        check_out(op, f"outs[{k}]", out, dy.shape, dy.dtype)
    return [
        _gradient(xp, dy, inputs, operation, coeffs, which, k, out) for k, out in enumerate(places)
    ]


def _gradient(
    xp: Any, dy: Array, inputs: Sequence[Array], operation: str, coeffs: Sequence[float] | None,
    which: Array | None, k: int, out: Array | None,
) -> Array:  # fmt: skip
    if operation == "MAX":
        won: Array = xp.multiply(dy, which == k, out=out)
        return won
    dx: Array = xp.multiply(dy, 1.0 if coeffs is None else float(coeffs[k]), out=out)
    if operation == "SUM":
        return dx
    for other, x in enumerate(inputs):
        if other != k:
            dx *= x
    return dx
