"""ReLU, Clip, weighted sums, scale and bias per channel, copies: one pass over memory each."""

from __future__ import annotations

from collections.abc import Sequence

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.values import Vec
from ops.cpu.team.fast import Fast
from ops.cpu.team.streams import Stream
from ops.errors import Array


def rectified(c: Code, x: Vec) -> Vec:
    """max(x, 0); NaN stays NaN."""
    found: Vec = (x < 0.0).pick(c.constant(0), x)
    return found


def rectified_back(c: Code, dy: Vec, y: Vec) -> Vec:
    """dy where y > 0, else 0 * dy, so that NaN stays NaN."""
    kept: Vec = dy * (y > 0.0).pick(c.constant(1), c.constant(0))
    return kept


def _leaky(c: Code, x: Vec, slope: Vec) -> list[Vec]:
    return [(x < 0.0).pick(x * slope, x)]


def _gated(c: Code, dy: Vec, y: Vec, slope: Vec) -> list[Vec]:
    """A product as in the reference, so that a gradient that is NaN stays NaN."""
    return [dy * (y > 0.0).pick(c.constant(1), slope)]


def clipped(c: Code, x: Vec, least: Vec, most: Vec) -> Vec:
    """x, at least `least` and at most `most`; NaN stays NaN."""
    raised: Vec = (x < least).pick(least, x)
    found: Vec = (raised > most).pick(most, raised)
    return found


def clipped_back(c: Code, dy: Vec, x: Vec, least: Vec, most: Vec) -> Vec:
    """dy where least <= x <= most, else 0 * dy, as in the reference, so that NaN stays NaN."""
    outside = (x < least) | (x > most) | x.is_nan()
    kept: Vec = dy * outside.pick(c.constant(0), c.constant(1))
    return kept


def _add_all(count: int) -> Stream:
    names = " ".join(f"x{number}" for number in range(count))
    return Stream(f"add_{count}", "y", names, lambda c, *xs: [_in_pairs(xs)])


def _in_pairs(xs: Sequence[Vec]) -> Vec:
    while len(xs) > 1:
        pairs = [one.plus(other) for one, other in zip(xs[::2], xs[1::2], strict=False)]
        xs = [*pairs, *xs[2 * len(pairs) :]]
    return xs[0]


RECTIFY = Stream("rectify", "y", "x", lambda c, x: [rectified(c, x)])
LEAKY = Stream("leaky", "y", "x", _leaky, "slope")
RECTIFY_BACK = Stream("rectify_back", "dx", "dy y", _gated, "slope")
CLIP = Stream("clip", "y", "x", lambda c, *xs: [clipped(c, *xs)], "least most")
CLIP_BACK = Stream("clip_back", "dx", "dy x", lambda c, *xs: [clipped_back(c, *xs)], "least most")
COPY = Stream("copy", "y", "x", lambda c, x: [x])
TIMES = Stream("times", "y", "x", lambda c, x, p: [x * p], "p")
ADD_ALL = {count: _add_all(count) for count in range(2, 9)}
WEIGH_2 = Stream("weigh_2", "y", "x1 x2", lambda c, x1, x2, p, q: [x1 * p + x2 * q], "p q")
WEIGH_3 = Stream(
    "weigh_3", "y", "x1 x2 x3", lambda c, x1, x2, x3, p, q, r: [x1 * p + x2 * q + x3 * r], "p q r"
)
SCALE = Stream("scale", "y", "x", lambda c, x, gamma: [x * gamma], fixed="gamma")
SCALE_AND_BIAS = Stream(
    "scale_and_bias", "y", "x", lambda c, x, gamma, beta: [x * gamma + beta], fixed="gamma beta"
)
BIAS = Stream("bias", "y", "x", lambda c, x, beta: [x + beta], fixed="beta")


class Activations(Fast):
    """The element-by-element operations of the interface that training spends time in."""

    def relu_forward(
        self, x: Array, negative_slope: float = 0.0, out: Array | None = None
    ) -> Array:
        y = self.like(x, out)
        if negative_slope == 0:
            done = self.streams.run(RECTIFY, (y, x))
        else:
            done = self.streams.run(LEAKY, (y, x), (negative_slope,))
        return y if done else super().relu_forward(x, negative_slope, out)

    def relu_backward(
        self, dy: Array, y_or_x: Array, negative_slope: float = 0.0, out: Array | None = None
    ) -> Array:
        dx = self.like(dy, out)
        if self.streams.run(RECTIFY_BACK, (dx, dy, y_or_x), (negative_slope,)):
            return dx
        return super().relu_backward(dy, y_or_x, negative_slope, out)

    def clip_forward(self, x: Array, least: float, most: float, out: Array | None = None) -> Array:
        y = self.like(x, out)
        done = self.streams.run(CLIP, (y, x), (least, most))
        return y if done else super().clip_forward(x, least, most, out)

    def clip_backward(
        self, dy: Array, x: Array, least: float, most: float, out: Array | None = None
    ) -> Array:
        dx = self.like(dy, out)
        done = self.streams.run(CLIP_BACK, (dx, dy, x), (least, most))
        return dx if done else super().clip_backward(dy, x, least, most, out)

    def copy(self, x: Array, out: Array) -> Array:
        if self.streams.run(COPY, (out, x)):
            return out
        self.team.spoil()
        return super().copy(x, out)

    def add(self, a: Array, b: Array, out: Array | None = None) -> Array:
        total = self.like(a, out)
        return total if self.streams.run(ADD_ALL[2], (total, a, b)) else super().add(a, b, out)

    def add_all(self, arrays: Sequence[Array], out: Array | None = None) -> Array:
        """Up to eight arrays take one pass."""
        if len(arrays) in ADD_ALL:
            total = self.like(arrays[0], out)
            if not any(array is total for array in arrays) and self.streams.run(
                ADD_ALL[len(arrays)], (total, *arrays)
            ):
                return total
        return super().add_all(arrays, out)

    def eltwise_forward(
        self,
        inputs: Sequence[Array],
        *,
        operation: str = "SUM",
        coeffs: Sequence[float] | None = None,
        out: Array | None = None,
        which: Array | None = None,
    ) -> tuple[Array, Array | None]:
        """Sums take one pass for every two or three inputs."""
        if operation == "SUM" and inputs and (coeffs is None or len(coeffs) == len(inputs)):
            y = self.like(inputs[0], out)
            if self._weighted_sum(inputs, coeffs, y):
                return y, None
        return super().eltwise_forward(
            inputs, operation=operation, coeffs=coeffs, out=out, which=which
        )

    def _weighted_sum(
        self, inputs: Sequence[Array], coeffs: Sequence[float] | None, y: Array
    ) -> bool:
        weights = [1.0] * len(inputs) if coeffs is None else [float(c) for c in coeffs]
        if coeffs is None and len(inputs) == 2:
            return self.streams.run(ADD_ALL[2], (y, *inputs))
        if len(inputs) <= 3:
            stream = (TIMES, WEIGH_2, WEIGH_3)[len(inputs) - 1]
            return self.streams.run(stream, (y, *inputs), weights)
        if not all(self.streams.fits(ADD_ALL[2], (y, y, x)) for x in inputs):
            return False
        self._weighted_sum(inputs[:3], weights[:3], y)
        for at in range(3, len(inputs), 2):
            more = inputs[at : at + 2]
            self._weighted_sum([y, *more], [1.0, *weights[at : at + 2]], y)
        return True

    def eltwise_backward(
        self,
        dy: Array,
        inputs: Sequence[Array],
        *,
        operation: str = "SUM",
        coeffs: Sequence[float] | None = None,
        which: Array | None = None,
        outs: Sequence[Array | None] | None = None,
    ) -> list[Array]:
        if operation == "SUM" and inputs and outs is not None and len(outs) == len(inputs):
            weights = [1.0] * len(inputs) if coeffs is None else [float(c) for c in coeffs]
            into = [self.like(dy, out) for out in outs]
            alike = all(x.shape == dy.shape and x.dtype == dy.dtype for x in inputs) and len(
                weights
            ) == len(inputs)
            if alike and all(self.streams.fits(TIMES, (dx, dy)) for dx in into):
                for dx, weight in zip(into, weights, strict=True):
                    self.streams.run(TIMES, (dx, dy), (weight,))
                return into
        return super().eltwise_backward(
            dy, inputs, operation=operation, coeffs=coeffs, which=which, outs=outs
        )

    def scale_forward(
        self,
        x: Array,
        gamma: Array,
        beta: Array | None = None,
        axis: int = 1,
        out: Array | None = None,
    ) -> Array:
        """Fast along one axis."""
        if type(axis) is int and 0 <= axis < x.ndim:
            y = self.like(x, out)
            stream, parts = (SCALE, (gamma,)) if beta is None else (SCALE_AND_BIAS, (gamma, beta))
            if self.streams.run(stream, (y, x, *parts), axis=axis):
                return y
        return super().scale_forward(x, gamma, beta, axis, out)

    def scale_backward_data(
        self, dy: Array, gamma: Array, axis: int = 1, out: Array | None = None
    ) -> Array:
        """Fast along one axis."""
        if type(axis) is int and 0 <= axis < dy.ndim:
            dx = self.like(dy, out)
            if self.streams.run(SCALE, (dx, dy, gamma), axis=axis):
                return dx
        return super().scale_backward_data(dy, gamma, axis, out)

    def bias_forward(self, x: Array, b: Array, axis: int = 1, out: Array | None = None) -> Array:
        """Fast along one axis."""
        if type(axis) is int and 0 <= axis < x.ndim:
            y = self.like(x, out)
            if self.streams.run(BIAS, (y, x, b), axis=axis):
                return y
        return super().bias_forward(x, b, axis, out)
