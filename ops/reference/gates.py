"""Activations that multiply x by a gate between 0 and 1, forward and backward: Swish (SiLU), GELU
and HardSwish, and the gate HardSigmoid.

Arrays have any shape. `out` may be any input. All gradients are computed from x.
"""

from __future__ import annotations

import math
from typing import Any

from ops.errors import Array, check_alike
from ops.reference.normal import cumulative, density
from ops.reference.pointwise import sigmoid_forward

ROOT = math.sqrt(2 / math.pi)
FARTHEST = 30.0  # the gate is 0 or 1 there; cubes of larger numbers may overflow
CUBIC = 0.044715  # of the tanh that stands for erf (Hendrycks and Gimpel 2016)


def swish_forward(xp: Any, x: Array, beta: float, out: Array | None) -> Array:
    """y = x * sigmoid(beta * x)."""
    check_alike("swish_forward", out, x=x)
    y: Array = xp.multiply(x, _swish_gate(xp, x, beta), out=out)
    return y


def swish_backward(xp: Any, dy: Array, x: Array, beta: float, out: Array | None) -> Array:
    """dx = dy * g * (1 + beta * x * (1 - g)), with the gate g."""
    check_alike("swish_backward", out, dy=dy, x=x)
    gate = _swish_gate(xp, x, beta)
    slope = 1 - gate
    slope *= x
    slope *= float(beta)
    slope += 1
    slope *= gate
    dx: Array = xp.multiply(dy, slope, out=out)
    return dx


def _swish_gate(xp: Any, x: Array, beta: float) -> Array:
    inner = x * float(beta)
    return sigmoid_forward(xp, inner, inner)


def gelu_forward(xp: Any, x: Array, tanh: bool, out: Array | None) -> Array:
    """y = x * P(a normal number is below x); with `tanh` x / 2 * (1 + tanh(...)), which is close to
    it."""
    check_alike("gelu_forward", out, x=x)
    gate = _tanh_gate(xp, x) if tanh else cumulative(xp, x)
    y: Array = xp.multiply(x, gate, out=out)
    return y


def gelu_backward(xp: Any, dy: Array, x: Array, tanh: bool, out: Array | None) -> Array:
    """dx = dy * (g + x * g'), with the gate g and its derivative g'."""
    check_alike("gelu_backward", out, dy=dy, x=x)
    if tanh:
        gate = _tanh_gate(xp, x)
        rise = xp.clip(x, -FARTHEST, FARTHEST)
        rise *= rise
        rise *= 3 * CUBIC
        rise += 1
        rise *= 2 * ROOT * gate
        rise *= 1 - gate
    else:
        gate = cumulative(xp, x)
        rise = density(xp, x)
    rise *= x
    rise += gate
    dx: Array = xp.multiply(dy, rise, out=out)
    return dx


def _tanh_gate(xp: Any, x: Array) -> Array:
    """(1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), as the sigmoid of 2u."""
    near = xp.clip(x, -FARTHEST, FARTHEST)
    inner = near * near
    inner *= CUBIC
    inner += 1
    inner *= near
    inner *= 2 * ROOT
    return sigmoid_forward(xp, inner, inner)


def hard_sigmoid_forward(xp: Any, x: Array, out: Array | None) -> Array:
    """y = (x + 3) / 6, but at least 0 and at most 1."""
    check_alike("hard_sigmoid_forward", out, x=x)
    y: Array = xp.add(x, 3.0, out=out)
    y *= 1 / 6
    xp.maximum(y, 0, out=y)
    xp.minimum(y, 1, out=y)
    return y


def hard_sigmoid_backward(xp: Any, dy: Array, x: Array, out: Array | None) -> Array:
    """dx = dy / 6 where -3 < x < 3, else 0."""
    check_alike("hard_sigmoid_backward", out, dy=dy, x=x)
    inside = (x > -3) & (x < 3)
    dx: Array = xp.multiply(dy, inside, out=out)
    dx *= 1 / 6
    return dx


def hard_swish_forward(xp: Any, x: Array, out: Array | None) -> Array:
    """y = x * hard_sigmoid(x)."""
    check_alike("hard_swish_forward", out, x=x)
    y: Array = xp.multiply(x, hard_sigmoid_forward(xp, x, None), out=out)
    return y


def hard_swish_backward(xp: Any, dy: Array, x: Array, out: Array | None) -> Array:
    """dx = dy where x >= 3, dy * (x / 3 + 1 / 2) where -3 < x < 3, else 0."""
    check_alike("hard_swish_backward", out, dy=dy, x=x)
    slope = x * (1 / 3)
    slope += 0.5
    slope *= x > -3
    slope = xp.where(x >= 3, dy.dtype.type(1), slope)
    dx: Array = xp.multiply(dy, slope, out=out)
    return dx
