"""Smooth functions of single elements and their gradients: sigmoid, tanh, BNLL, power, exp, log,
absolute value.

Arrays have any shape. Each function may work in place: `out` may be any input. A backward function
takes x or y, whichever its formula uses. After a forward pass that overwrote its input, only the
functions that take y can follow.
"""

from __future__ import annotations

import math
from typing import Any

from ops.errors import Array, OpsError, check_alike


def sigmoid_forward(xp: Any, x: Array, out: Array | None) -> Array:
    """y = 1 / (1 + exp(-x)), as 0.5 + 0.5 tanh(x / 2): no overflow."""
    check_alike("sigmoid_forward", out, x=x)
    y: Array = xp.multiply(x, 0.5, out=out)
    xp.tanh(y, out=y)
    y *= 0.5
    y += 0.5
    return y


def sigmoid_backward(xp: Any, dy: Array, y: Array, out: Array | None) -> Array:
    """dx = dy * y * (1 - y)."""
    check_alike("sigmoid_backward", out, dy=dy, y=y)
    slope = xp.subtract(1.0, y)
    slope *= y
    dx: Array = xp.multiply(dy, slope, out=out)
    return dx


def tanh_forward(xp: Any, x: Array, out: Array | None) -> Array:
    """y = tanh(x)."""
    check_alike("tanh_forward", out, x=x)
    y: Array = xp.tanh(x, out=out)
    return y


def tanh_backward(xp: Any, dy: Array, y: Array, out: Array | None) -> Array:
    """dx = dy * (1 - y^2)."""
    check_alike("tanh_backward", out, dy=dy, y=y)
    slope = xp.multiply(y, y)
    xp.subtract(1.0, slope, out=slope)
    dx: Array = xp.multiply(dy, slope, out=out)
    return dx


def bnll_forward(xp: Any, x: Array, out: Array | None) -> Array:
    """y = log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)): no overflow (Caffe's BNLL)."""
    check_alike("bnll_forward", out, x=x)
    rest = xp.abs(x)
    xp.negative(rest, out=rest)
    xp.exp(rest, out=rest)
    xp.log1p(rest, out=rest)
    y: Array = xp.maximum(x, 0, out=out)
    y += rest
    return y


def bnll_backward(xp: Any, dy: Array, x: Array, out: Array | None) -> Array:
    """dx = dy * sigmoid(x)."""
    check_alike("bnll_backward", out, dy=dy, x=x)
    dx: Array = xp.multiply(dy, sigmoid_forward(xp, x, None), out=out)
    return dx


def _inner(xp: Any, x: Array, scale: float, shift: float, out: Array | None) -> Array:
    inner: Array = xp.multiply(x, float(scale), out=out)
    if shift:
        inner += float(shift)
    return inner


def _raise(xp: Any, base: Array, power: float) -> Array:
    """base ** power in place. The cheap exponents do not call pow."""
    if power == 2:
        base *= base
    elif power != 1:
        xp.power(base, float(power), out=base)
    return base


def power_forward(
    xp: Any, x: Array, power: float, scale: float, shift: float, out: Array | None
) -> Array:
    """y = (shift + scale * x) ^ power (Caffe's Power). A negative base with a fractional power is
    NaN."""
    check_alike("power_forward", out, x=x)
    return _raise(xp, _inner(xp, x, scale, shift, out), power)


def power_backward(
    xp: Any, dy: Array, x: Array, power: float, scale: float, shift: float, out: Array | None
) -> Array:  # fmt: skip
    """dx = dy * power * scale * (shift + scale * x) ^ (power - 1)."""
    check_alike("power_backward", out, dy=dy, x=x)
    factor = float(power) * float(scale)
    slope: Any = factor
    if power != 1 and factor != 0:
        slope = _raise(xp, _inner(xp, x, scale, shift, None), power - 1)
        slope *= factor
    dx: Array = xp.multiply(dy, slope, out=out)
    return dx


def _log_base(op: str, base: float) -> float:
    """The natural logarithm of the base; Caffe's -1 stands for e."""
    if base != -1 and (not base > 0 or base == math.inf):
        raise OpsError(f"{op}: base is {base}, expected a positive number, or -1 for e")
    return 1.0 if base == -1 else math.log(base)


def exp_forward(
    xp: Any, x: Array, base: float, scale: float, shift: float, out: Array | None
) -> Array:
    """y = base ^ (shift + scale * x); base -1 is e (Caffe's Exp)."""
    check_alike("exp_forward", out, x=x)
    log_base = _log_base("exp_forward", base)
    y = _inner(xp, x, scale * log_base, shift * log_base, out)
    xp.exp(y, out=y)
    return y


def exp_backward(
    xp: Any, dy: Array, y: Array, base: float, scale: float, out: Array | None
) -> Array:
    """dx = dy * y * scale * log(base)."""
    check_alike("exp_backward", out, dy=dy, y=y)
    dx: Array = xp.multiply(dy, y, out=out)
    dx *= float(scale) * _log_base("exp_backward", base)
    return dx


def log_forward(
    xp: Any, x: Array, base: float, scale: float, shift: float, out: Array | None
) -> Array:
    """y = log(shift + scale * x) to that base; base -1 is e (Caffe's Log)."""
    check_alike("log_forward", out, x=x)
    log_base = _checked_log_base("log_forward", base)
    y = _inner(xp, x, scale, shift, out)
    xp.log(y, out=y)
    if log_base != 1:
        y *= 1 / log_base
    return y


def log_backward(
    xp: Any, dy: Array, x: Array, base: float, scale: float, shift: float, out: Array | None
) -> Array:  # fmt: skip
    """dx = dy * scale / (log(base) * (shift + scale * x))."""
    check_alike("log_backward", out, dy=dy, x=x)
    factor = float(scale) / _checked_log_base("log_backward", base)
    inner = _inner(xp, x, scale, shift, None)
    dx: Array = xp.divide(dy, inner, out=out)
    dx *= factor
    return dx


def _checked_log_base(op: str, base: float) -> float:
    log_base = _log_base(op, base)
    if log_base == 0:
        raise OpsError(f"{op}: base is 1, expected another number: its logarithm is 0")
    return log_base


def absolute_forward(xp: Any, x: Array, out: Array | None) -> Array:
    """y = |x| (Caffe's AbsVal)."""
    check_alike("absolute_forward", out, x=x)
    y: Array = xp.abs(x, out=out)
    return y


def absolute_backward(xp: Any, dy: Array, x: Array, out: Array | None) -> Array:
    """dx = dy * sign(x), 0 at 0."""
    check_alike("absolute_backward", out, dy=dy, x=x)
    dx: Array = xp.multiply(dy, xp.sign(x), out=out)
    return dx
