"""Batch norm, scale, bias, addend and activation in the passes of batch norm alone.

Backward starts again from x, so no normalised copy of it is kept, written or read: with a = gamma /
sqrt(variance + eps), d = x - mean and g the gradient of the activation's argument a d + beta, dx =
a (g - mean of g - d (mean of g d) / (variance + eps)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.activation import Activation
from ops.cpu.codegen.code import Code, Generated
from ops.cpu.codegen.values import Vec
from ops.cpu.elementwise.joined import JOINED, Joined, kind_and_numbers
from ops.cpu.elementwise.normalise import Normalisation
from ops.cpu.elementwise.reduce import RowSums, plain
from ops.cpu.elementwise.sums import sums_through, total_sums
from ops.cpu.team.operands import F32, LOADED, address, rows_of
from ops.cpu.team.streams import Stream
from ops.errors import Array


def _factor(c: Code, gamma: Vec, variance: Vec, eps: Vec) -> list[Vec]:
    return [gamma / c.apply("sqrt", variance + eps)]


def _forward(activation: Joined, added: bool) -> Any:
    def formula(c: Code, x: Vec, *more: Vec) -> list[Vec]:
        mean, factor, beta, *numbers = more[added:]
        y = (x - mean) * factor + beta
        return [activation.forward(c, y + more[0] if added else y, *numbers)]

    return formula


def _finish(
    c: Code, products: Vec, dbeta: Vec, variance: Vec, eps: Vec, part: Vec
) -> list[Vec]:  # fmt: skip
    """dgamma; then mean and slope of the gradient of the normalised x, as a line over x - mean."""
    inverse = c.constant(1) / c.apply("sqrt", variance + eps)
    dgamma = products * inverse
    return [dgamma, dbeta * part, dgamma * inverse * part]


def _backward(activation: Joined) -> Any:
    def formula(
        c: Code, dy: Vec, x: Vec, mean: Vec, factor: Vec, offset: Vec, slope: Vec, beta: Vec,
        *numbers: Vec,
    ) -> list[Vec]:  # fmt: skip
        away = x - mean
        g = activation.backward(c, dy, away * factor + beta, *numbers)
        return [(g - offset - away * slope) * factor]

    return formula


FACTOR = Stream("norm_scale_factor", "factor", "gamma variance", _factor, "eps")
FORWARD = {
    (kind, added): Stream(
        f"norm_scale{'_added' if added else ''}_{kind}",
        "y",
        "x addend" if added else "x",
        _forward(activation, added),
        activation.numbers,
        fixed="mean factor beta",
    )
    for kind, activation in JOINED.items()
    for added in (False, True)
}
FINISH = Stream(
    "norm_scale_finish", "dgamma offset slope", "products dbeta variance", _finish, "eps part"
)
BACKWARD = {
    kind: Stream(
        f"norm_scale_{kind}_back",
        "dx",
        "dy x",
        _backward(activation),
        activation.numbers,
        fixed="mean factor offset slope beta",
    )
    for kind, activation in JOINED.items()
}
SUMS = {
    kind: sums_through(f"through_{kind}", activation.backward, activation.numbers)
    for kind, activation in JOINED.items()
}


class NormScale(Normalisation):
    """`norm_scale_forward` and `norm_scale_backward` over rows of channels."""

    _gated_sums: dict[Any, RowSums | None] | None = None

    def norm_scale_forward(
        self,
        x: Array,
        gamma: Array,
        beta: Array,
        *,
        eps: float = 1e-5,
        statistics: tuple[Array, Array] | None = None,
        activation: Activation | None = None,
        addend: Array | None = None,
        out: Array | None = None,
        mean: Array | None = None,
        variance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        found = self._joined(
            x, gamma, beta, eps, statistics, activation, addend, out, mean, variance
        )
        if found is not None:
            return found
        self.team.spoil()
        return super().norm_scale_forward(
            x, gamma, beta, eps=eps, statistics=statistics, activation=activation, addend=addend,
            out=out, mean=mean, variance=variance,
        )  # fmt: skip

    def _joined(
        self,
        x: Array,
        gamma: Array,
        beta: Array,
        eps: float,
        statistics: tuple[Array, Array] | None,
        activation: Activation | None,
        addend: Array | None,
        out: Array | None,
        mean: Array | None,
        variance: Array | None,
    ) -> tuple[Array, Array, Array] | None:
        kind, numbers = kind_and_numbers(activation)
        if x.ndim < 2 or x.dtype not in LOADED or x.size == 0 or kind not in JOINED:
            return None
        y = self.like(x, out)
        factor = self.vectors(x.shape[1])[0]
        if statistics is not None:
            if mean is not None or variance is not None:
                return None
            mean, variance = statistics
        else:
            mean, variance = (
                self.empty((x.shape[1],)) if a is None else a for a in (mean, variance)
            )
        inputs = (x,) if addend is None else (x, addend)
        stream = FORWARD[kind, addend is not None]
        operands = (y, *inputs, mean, factor, beta)
        if not self.streams.fits(stream, operands, 1) or not self.streams.fits(
            FACTOR, (factor, gamma, variance)
        ):
            return None
        if statistics is None and not self.measure(x, mean, variance):
            return None
        self.streams.run(FACTOR, (factor, gamma, variance), (eps,))
        self.streams.run(stream, operands, numbers, axis=1)
        return y, mean, variance

    def norm_scale_backward(
        self,
        dy: Array,
        x: Array,
        gamma: Array,
        beta: Array,
        mean: Array,
        variance: Array,
        *,
        eps: float = 1e-5,
        fixed: bool = False,
        activation: Activation | None = None,
        sums: tuple[Array, Array] | None = None,
        out: Array | None = None,
        out_gamma: Array | None = None,
        out_beta: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        kind, numbers = kind_and_numbers(activation)
        if dy.ndim > 1 and dy.dtype in LOADED and dy.size and kind in JOINED:
            dx = self.like(dy, out)
            channels = dy.shape[1]
            dgamma, dbeta = (
                self.empty((channels,), F32) if a is None else a for a in (out_gamma, out_beta)
            )
            factor, offset, slope = self.vectors(channels)
            stream = BACKWARD[kind]
            operands = (dx, dy, x, mean, factor, offset, slope, beta)
            finish = (dgamma, offset, slope, slope, dbeta, variance)
            plan = self._gated(dy, x, SUMS[kind])
            if (
                plan is not None
                and self.streams.fits(stream, operands, 1)
                and self.streams.fits(FINISH, finish)
                and self.streams.run(FACTOR, (factor, gamma, variance), (eps,))
                and plain(dgamma, channels)
                and plain(dbeta, channels)
            ):
                if sums is None:
                    for name, number in zip(JOINED[kind].numbers.split(), numbers, strict=True):
                        setattr(plan.block, name, number)
                    self._sum_gated(plan, dy, x, mean, factor, beta, dbeta, slope)
                else:
                    for into, found in zip((dbeta, slope), sums, strict=True):
                        self.team.do(np.copyto, into, found)
                self.streams.run(FINISH, finish, (eps, 0.0 if fixed else channels / dy.size))
                self.streams.run(stream, operands, numbers, axis=1)
                return dx, dgamma, dbeta
        self.team.spoil()
        return super().norm_scale_backward(
            dy, x, gamma, beta, mean, variance, eps=eps, fixed=fixed, activation=activation,
            sums=sums, out=out, out_gamma=out_gamma, out_beta=out_beta,
        )  # fmt: skip

    def _gated(self, dy: Array, x: Array, kernel: Generated) -> RowSums | None:
        if self._gated_sums is None:
            self._gated_sums = {}
        arrays = {"x": dy, "y": x}
        key = kernel.name, *((a.shape, a.strides, a.dtype) for a in arrays.values())
        if key not in self._gated_sums:
            rows = rows_of([dy, x], 1)
            self._gated_sums[key] = (
                None if rows is None else RowSums(rows, self.team.size, kernel, arrays)
            )
        return self._gated_sums[key]

    def _sum_gated(
        self,
        sums: RowSums,
        dy: Array,
        x: Array,
        mean: Array,
        factor: Array,
        beta: Array,
        dbeta: Array,
        products: Array,
    ) -> None:
        block = sums.block
        total = sums.total
        block.sums = total.sums = self.workspace.take(sums.bytes)
        block.x = address(dy)
        block.y = address(x)
        block.mean = address(mean)
        block.factor = address(factor)
        block.beta = address(beta)
        self.team.run(sums.kernel, block)
        total.first = address(dbeta)
        total.second = address(products)
        total.factor = 1.0
        self.team.run(total_sums, total)
