"""Caffe's solvers with a rate for each number, each in one pass over a parameter, its gradient and
its histories."""

from __future__ import annotations

import math

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.values import Vec
from ops.cpu.elementwise.decoupled_update import DecoupledUpdates
from ops.cpu.elementwise.momentum_update import DECAYS, decays, regularised
from ops.cpu.team.streams import Stream
from ops.errors import Array
from ops.reference.update import REGULARIZATIONS


def _by_root(c: Code, w: Vec, step: Vec, squares: Vec, rate: Vec, delta: Vec) -> Vec:
    return w - step * rate / (c.apply("sqrt", squares) + delta)


def _mean_square(
    c: Code,
    w: Vec,
    g: Vec,
    h: Vec,
    rate: Vec,
    keep: Vec,
    gain: Vec,
    delta: Vec,
    ridge: Vec,
    lasso: Vec,
) -> list[Vec]:
    d = regularised(c, w, g, ridge, lasso)
    new = h * keep + d * d * gain
    return [_by_root(c, w, d, new, rate, delta), new]


def _adam(
    c: Code,
    w: Vec,
    g: Vec,
    m: Vec,
    s: Vec,
    rate: Vec,
    keep: Vec,
    gain: Vec,
    keep2: Vec,
    gain2: Vec,
    delta: Vec,
    ridge: Vec,
    lasso: Vec,
) -> list[Vec]:
    d = regularised(c, w, g, ridge, lasso)
    mean = m * keep + d * gain
    square = s * keep2 + d * d * gain2
    return [_by_root(c, w, mean, square, rate, delta), mean, square]


MEAN_SQUARE = Stream(
    "mean_square", "w_out h_out", "w g h", _mean_square, f"rate keep gain delta {DECAYS}"
)
ADAM = Stream(
    "adam", "w_out m_out s_out", "w g m s", _adam, (f"rate keep gain keep2 gain2 delta {DECAYS}")
)


class Updates(DecoupledUpdates):
    """Every solver as one pass, except AdaDelta, which the reference computes."""

    def adagrad_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        new_w = self.like(w, out_w)
        new_h = self.like(history, out_h)
        numbers = (rate, 1.0, 1.0, delta, *decays(decay, regularization))
        if regularization in REGULARIZATIONS and self.streams.run(
            MEAN_SQUARE, (new_w, new_h, w, g, history), numbers
        ):
            return new_w, new_h
        return super().adagrad_update(
            w,
            g,
            history,
            rate=rate,
            delta=delta,
            decay=decay,
            regularization=regularization,
            out_w=out_w,
            out_h=out_h,
        )

    def rmsprop_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        rms_decay: float = 0.99,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        new_w = self.like(w, out_w)
        new_h = self.like(history, out_h)
        numbers = (rate, rms_decay, 1 - rms_decay, delta, *decays(decay, regularization))
        if regularization in REGULARIZATIONS and self.streams.run(
            MEAN_SQUARE, (new_w, new_h, w, g, history), numbers
        ):
            return new_w, new_h
        return super().rmsprop_update(
            w,
            g,
            history,
            rate=rate,
            rms_decay=rms_decay,
            delta=delta,
            decay=decay,
            regularization=regularization,
            out_w=out_w,
            out_h=out_h,
        )

    def adam_update(
        self,
        w: Array,
        g: Array,
        mean: Array,
        square: Array,
        *,
        rate: float,
        step: int,
        momentum: float = 0.9,
        momentum2: float = 0.999,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_m: Array | None = None,
        out_s: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        if regularization in REGULARIZATIONS and step >= 1:
            new_w = self.like(w, out_w)
            new_m = self.like(mean, out_m)
            new_s = self.like(square, out_s)
            corrected = rate * math.sqrt(1 - momentum2**step) / (1 - momentum**step)
            gains = (momentum, 1 - momentum, momentum2, 1 - momentum2)
            numbers = (corrected, *gains, delta, *decays(decay, regularization))
            if self.streams.run(ADAM, (new_w, new_m, new_s, w, g, mean, square), numbers):
                return new_w, new_m, new_s
        return super().adam_update(
            w,
            g,
            mean,
            square,
            rate=rate,
            step=step,
            momentum=momentum,
            momentum2=momentum2,
            delta=delta,
            decay=decay,
            regularization=regularization,
            out_w=out_w,
            out_m=out_m,
            out_s=out_s,
        )
