"""Caffe's solvers with momentum, SGD and Nesterov, each in one pass over a parameter, its gradient
and its history."""

from __future__ import annotations

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.values import Vec
from ops.cpu.team.fast import Fast
from ops.cpu.team.streams import Stream
from ops.errors import Array
from ops.reference.update import REGULARIZATIONS

DECAYS = "ridge lasso"  # the factors of L2 and of L1; one of them is 0


def regularised(c: Code, w: Vec, g: Vec, ridge: Vec, lasso: Vec) -> Vec:
    """The gradient plus the term that regularization adds."""
    sign: Vec = (w > 0.0).pick(lasso, (w < 0.0).pick(c.constant(0) - lasso, c.constant(0)))
    return g + w * ridge + sign


def fused(c: Code, x: Vec, y: Vec, z: Vec) -> Vec:
    """x * y + z, rounded once. Of two products in a sum, the compiler would fuse either one, here
    this one and there the other. So a number has the same bits wherever it lies in its array."""
    return c.apply("fma", x, y, z)


def _sgd(
    c: Code, w: Vec, g: Vec, h: Vec, rate: Vec, momentum: Vec, ridge: Vec, lasso: Vec
) -> list[Vec]:
    new = h * momentum + regularised(c, w, g, ridge, lasso) * rate
    return [w - new, new]


def _nesterov(
    c: Code, w: Vec, g: Vec, h: Vec, rate: Vec, momentum: Vec, ridge: Vec, lasso: Vec
) -> list[Vec]:
    kept = h * momentum
    new = fused(c, regularised(c, w, g, ridge, lasso), rate, kept)
    return [w - fused(c, new, momentum + 1.0, c.constant(0) - kept), new]


SGD = Stream("sgd", "w_out h_out", "w g h", _sgd, f"rate momentum {DECAYS}")
NESTEROV = Stream("nesterov", "w_out h_out", "w g h", _nesterov, f"rate momentum {DECAYS}")


class MomentumUpdates(Fast):
    """SGD and Nesterov as one pass each."""

    def sgd_update(
        self, w: Array, g: Array, history: Array, *, rate: float, momentum: float, decay: float,
        regularization: str = "L2", out_w: Array | None = None, out_h: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        new_w = self.like(w, out_w)
        new_h = self.like(history, out_h)
        numbers = (rate, momentum, *decays(decay, regularization))
        if regularization in REGULARIZATIONS and self.streams.run(
            SGD, (new_w, new_h, w, g, history), numbers
        ):
            return new_w, new_h
        return super().sgd_update(
            w, g, history, rate=rate, momentum=momentum, decay=decay, regularization=regularization,
            out_w=out_w, out_h=out_h,
        )  # fmt: skip

    def nesterov_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        momentum: float,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        new_w = self.like(w, out_w)
        new_h = self.like(history, out_h)
        numbers = (rate, momentum, *decays(decay, regularization))
        if regularization in REGULARIZATIONS and self.streams.run(
            NESTEROV, (new_w, new_h, w, g, history), numbers
        ):
            return new_w, new_h
        return super().nesterov_update(
            w, g, history, rate=rate, momentum=momentum, decay=decay, regularization=regularization,
            out_w=out_w, out_h=out_h,
        )  # fmt: skip


def decays(decay: float, regularization: str) -> tuple[float, float]:
    """The numbers of DECAYS."""
    return (decay, 0.0) if regularization == "L2" else (0.0, decay)
