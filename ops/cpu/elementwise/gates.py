"""Activations that multiply x by a gate, and the gate HardSigmoid: one pass over memory each.

The formulas are those of `ops.reference.gates`, with gate and slope in registers. Each is compiled
when it first runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.values import Vec
from ops.cpu.elementwise.softmax import exp_of_negative
from ops.cpu.team.fast import Fast
from ops.cpu.team.streams import Stream
from ops.errors import Array
from ops.reference.gates import CUBIC, FARTHEST, ROOT

FAR = 10.0  # erfc is 0 in float32 there
# erfc(z) exp(z^2) / t on 0 to 9.5, fitted for the least relative error, 1.8e-8; highest power first
ERFC = (
    0.013852046975901984,
    -0.1316165987228683,
    0.4481742321061268,
    -0.6950507269502962,
    0.4414835710986549,
    -0.10879391827003845,
    0.2290180773104829,
    0.23793487346526293,
    0.2829378218310567,
    0.2820606037428631,
)
# GELU of bfloat16 numbers, which hold 8 bits: for |x| up to NEAR its gate is 1/2 + x p(v), and so
# is its derivative, with v = 2 x^2 / NEAR^2 - 1. Fitted for the least absolute error of GELU, 6e-6,
# and of its derivative, 1e-5; highest power first. At NEAR the gate is a little more than 1, so
# that it is 1 from there on.
NEAR = 5.0
SHORT_GATE = (
    -0.0010963440139514248,
    0.0031944451315227213,
    -0.0038868950274075563,
    0.005113293691327535,
    -0.010165438389911779,
    0.016910117543030817,
    -0.023624957076287,
    0.03135672960267869,
    -0.04039198370723854,
    0.05152539655649903,
    -0.07029823279505021,
    0.14136392848478768,
)
SHORT_SLOPE = (
    0.010256036213294795,
    -0.02466140602222207,
    0.017726282729696646,
    -0.017874004354271007,
    0.05138832815479364,
    -0.0773049086508598,
    0.0806355898688992,
    -0.08191395875182408,
    0.08021373962547715,
    -0.0720790988322975,
    0.06658154108336503,
    -0.07509979084462866,
    0.14213365712819642,
)
Gate = tuple[Vec, Vec]  # the gate of each number, and its derivative
Formula = Callable[..., Gate]


def _sigmoid(c: Code, x: Vec) -> Vec:
    power = exp_of_negative(c, c.constant(0) - c.apply("fabs", x))
    share = c.inverse_of(power + 1.0)
    found: Vec = (x < 0.0).pick(power * share, share)
    return found


def swish_gate(c: Code, x: Vec, beta: Vec) -> Gate:
    gate = _sigmoid(c, x * beta)
    return gate, gate * (c.constant(1) - gate) * beta


def _gelu(c: Code, x: Vec) -> Gate:
    """The normal distribution's cumulative function and density.

    erfc(z) is t exp(-z^2) p(t) with t = 2 / (2 + z), so the density's power serves both. The
    reference has a series in the exponent instead, which costs one more power.
    """
    size = c.apply("fabs", x) * math.sqrt(0.5)
    z: Vec = (size > FAR).pick(c.constant(FAR), size)
    t = c.inverse_of(z * 0.5 + 1.0)
    series = c.constant(ERFC[0])
    for factor in ERFC[1:]:
        series = c.apply("fma", series, t, c.constant(factor))
    power = exp_of_negative(c, c.constant(0) - z * z)
    upper = t * series * power * 0.5
    gate: Vec = (x < 0.0).pick(upper, c.constant(1) - upper)
    return gate, power * (1 / math.sqrt(2 * math.pi))


def gelu(c: Code, x: Vec) -> Vec:
    """GELU. A result in bfloat16 has a short formula, which takes half the time."""
    if not _rounds(c):
        return gated(_gelu, c, x)
    away = _odd(c, x, SHORT_GATE)
    open_: Vec = (away > 0.5).pick(c.constant(0.5), away)
    gate: Vec = (open_ < -0.5).pick(c.constant(-0.5), open_)
    return x * (gate + 0.5)


def gelu_back(c: Code, dy: Vec, x: Vec) -> Vec:
    """dy times the derivative of GELU."""
    if not _rounds(c):
        return gated_back(_gelu, c, dy, x)
    return dy * (_odd(c, x, SHORT_SLOPE) + 0.5)


def _rounds(c: Code) -> bool:
    """Whether a kernel's result is bfloat16, or its sums are those of a bfloat16 y."""
    return not c.halves.isdisjoint(("y", "dx"))


def _odd(c: Code, x: Vec, series: tuple[float, ...]) -> Vec:
    """x p(v), constant from NEAR on."""
    near: Vec = (x > NEAR).pick(c.constant(NEAR), x)
    near = (near < -NEAR).pick(c.constant(-NEAR), near)
    v = c.apply("fma", near * near, c.constant(2 / NEAR**2), c.constant(-1))
    found = c.constant(series[0])
    for factor in series[1:]:
        found = c.apply("fma", found, v, c.constant(factor))
    return near * found


def _gelu_tanh(c: Code, x: Vec) -> Gate:
    near: Vec = (x > FARTHEST).pick(c.constant(FARTHEST), x)
    near = (near < -FARTHEST).pick(c.constant(-FARTHEST), near)
    square = near * near * CUBIC
    gate = _sigmoid(c, near * (square + 1.0) * (2 * ROOT))
    return gate, gate * (c.constant(1) - gate) * (square * 3.0 + 1.0) * (2 * ROOT)


def hard_gate(c: Code, x: Vec) -> Gate:
    raw = (x + 3.0) * (1 / 6)
    low: Vec = (raw < 0.0).pick(c.constant(0), raw)
    gate: Vec = (low > 1.0).pick(c.constant(1), low)
    inside = (x > -3.0) & (x < 3.0)
    return gate, inside.pick(c.constant(1 / 6), c.constant(0))


def gated(formula: Formula, c: Code, x: Vec, *numbers: Vec) -> Vec:
    """x times its gate."""
    return x * formula(c, x, *numbers)[0]


def gated_back(formula: Formula, c: Code, dy: Vec, x: Vec, *numbers: Vec) -> Vec:
    """dy times the derivative of `gated`."""
    gate, slope = formula(c, x, *numbers)
    # far from 0 the slope is 0, and x may be infinite
    rise: Vec = ((slope < 0.0) | (slope > 0.0) | slope.is_nan()).pick(x * slope, slope)
    return dy * (gate + rise)


def _pair(name: str, formula: Formula, numbers: str = "") -> tuple[Stream, Stream]:
    """The streams y = x gate and dx = dy (gate + x gate')."""
    return _streams(name, partial(gated, formula), partial(gated_back, formula), numbers)


def _streams(
    name: str, forward: Callable[..., Vec], backward: Callable[..., Vec], numbers: str = ""
) -> tuple[Stream, Stream]:
    return (
        Stream(name, "y", "x", lambda c, *xs: [forward(c, *xs)], numbers),
        Stream(f"{name}_back", "dx", "dy x", lambda c, *xs: [backward(c, *xs)], numbers),
    )


SWISH = _pair("swish", swish_gate, "beta")
GELU = _streams("gelu", gelu, gelu_back)
GELU_TANH = _pair("gelu_tanh", _gelu_tanh)
HARD_SWISH = _pair("hard_swish", hard_gate)
HARD_SIGMOID = Stream("hard_sigmoid", "y", "x", lambda c, x: [hard_gate(c, x)[0]])
HARD_SIGMOID_BACK = Stream(
    "hard_sigmoid_back", "dx", "dy x", lambda c, dy, x: [dy * hard_gate(c, x)[1]]
)


class Gates(Fast):
    """Swish, GELU, HardSwish and HardSigmoid of float32 arrays."""

    def swish_forward(self, x: Array, beta: float = 1.0, out: Array | None = None) -> Array:
        y = self.like(x, out)
        done = self.streams.run(SWISH[0], (y, x), (beta,))
        return y if done else super().swish_forward(x, beta, out)

    def swish_backward(
        self, dy: Array, x: Array, beta: float = 1.0, out: Array | None = None
    ) -> Array:
        dx = self.like(dy, out)
        done = self.streams.run(SWISH[1], (dx, dy, x), (beta,))
        return dx if done else super().swish_backward(dy, x, beta, out)

    def gelu_forward(self, x: Array, *, tanh: bool = False, out: Array | None = None) -> Array:
        y = self.like(x, out)
        done = self.streams.run((GELU_TANH if tanh else GELU)[0], (y, x))
        return y if done else super().gelu_forward(x, tanh=tanh, out=out)

    def gelu_backward(
        self, dy: Array, x: Array, *, tanh: bool = False, out: Array | None = None
    ) -> Array:
        dx = self.like(dy, out)
        done = self.streams.run((GELU_TANH if tanh else GELU)[1], (dx, dy, x))
        return dx if done else super().gelu_backward(dy, x, tanh=tanh, out=out)

    def hard_sigmoid_forward(self, x: Array, out: Array | None = None) -> Array:
        y = self.like(x, out)
        done = self.streams.run(HARD_SIGMOID, (y, x))
        return y if done else super().hard_sigmoid_forward(x, out)

    def hard_sigmoid_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        dx = self.like(dy, out)
        done = self.streams.run(HARD_SIGMOID_BACK, (dx, dy, x))
        return dx if done else super().hard_sigmoid_backward(dy, x, out)

    def hard_swish_forward(self, x: Array, out: Array | None = None) -> Array:
        y = self.like(x, out)
        done = self.streams.run(HARD_SWISH[0], (y, x))
        return y if done else super().hard_swish_forward(x, out)

    def hard_swish_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        dx = self.like(dy, out)
        done = self.streams.run(HARD_SWISH[1], (dx, dy, x))
        return dx if done else super().hard_swish_backward(dy, x, out)
