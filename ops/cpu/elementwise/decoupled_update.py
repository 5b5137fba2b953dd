"""Updates with decoupled weight decay (SGDW, NesterovW, AdamW), each in one pass over a parameter,
its gradient and its histories."""

from __future__ import annotations

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.values import Vec
from ops.cpu.elementwise.momentum_update import MomentumUpdates, fused
from ops.cpu.team.streams import Stream
from ops.errors import Array
from ops.reference.decoupled_update import corrections, only_l2


def _less(c: Code, w: Vec, step: Vec, shrink: Vec) -> Vec:
    """w - (step + shrink * w)."""
    return w - fused(c, w, shrink, step)


def _sgdw(c: Code, w: Vec, g: Vec, h: Vec, rate: Vec, momentum: Vec, shrink: Vec) -> list[Vec]:
    new = fused(c, h, momentum, g)
    return [_less(c, w, new * rate, shrink), new]


def _nesterovw(c: Code, w: Vec, g: Vec, h: Vec, rate: Vec, momentum: Vec, shrink: Vec) -> list[Vec]:
    new = fused(c, h, momentum, g)
    return [_less(c, w, fused(c, new, momentum, g) * rate, shrink), new]


def _adamw(
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
    shrink: Vec,
) -> list[Vec]:
    mean = fused(c, m, keep, g * gain)
    square = fused(c, s, keep2, fused(c, g, g, c.constant(0)) * gain2)
    step = mean * rate / (c.apply("sqrt", square) + delta)
    return [_less(c, w, step, shrink), mean, square]


def _average(c: Code, average: Vec, w: Vec, gain: Vec) -> list[Vec]:
    return [average + (w - average) * gain]


AVERAGE = Stream("moving_average", "out", "average w", _average, "gain")
SGDW = Stream("sgdw", "w_out h_out", "w g h", _sgdw, "rate momentum shrink")
NESTEROVW = Stream("nesterovw", "w_out h_out", "w g h", _nesterovw, "rate momentum shrink")
ADAMW = Stream(
    "adamw", "w_out m_out s_out", "w g m s", _adamw, "rate keep gain keep2 gain2 delta shrink"
)


class DecoupledUpdates(MomentumUpdates):
    """SGDW, NesterovW, AdamW and the average of parameters as one pass each."""

    def moving_average(
        self, average: Array, w: Array, keep: float, out: Array | None = None
    ) -> Array:
        new = self.like(average, out)
        if self.streams.run(AVERAGE, (new, average, w), (1 - keep,)):
            return new
        return super().moving_average(average, w, keep, out)

    def sgdw_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        momentum: float,
        decay: float = 0.0,
        nesterov: bool = False,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        only_l2("sgdw_update", regularization)
        new_w = self.like(w, out_w)
        new_h = self.like(history, out_h)
        stream = NESTEROVW if nesterov else SGDW
        if self.streams.run(stream, (new_w, new_h, w, g, history), (rate, momentum, rate * decay)):
            return new_w, new_h
        return super().sgdw_update(
            w,
            g,
            history,
            rate=rate,
            momentum=momentum,
            decay=decay,
            nesterov=nesterov,
            out_w=out_w,
            out_h=out_h,
        )

    def adamw_update(
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
        only_l2("adamw_update", regularization)
        new_w = self.like(w, out_w)
        new_m = self.like(mean, out_m)
        new_s = self.like(square, out_s)
        factor, small = corrections("adamw_update", rate, momentum, momentum2, delta, step)
        gains = (momentum, 1 - momentum, momentum2, 1 - momentum2)
        numbers = (factor, *gains, small, rate * decay)
        if self.streams.run(ADAMW, (new_w, new_m, new_s, w, g, mean, square), numbers):
            return new_w, new_m, new_s
        return super().adamw_update(
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
            out_w=out_w,
            out_m=out_m,
            out_s=out_s,
        )
