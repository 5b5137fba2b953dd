"""Batch normalisation: two passes over memory each way, one for the sums and one for the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ops.cpu.codegen.code import Code
from ops.cpu.codegen.target import host
from ops.cpu.codegen.values import Vec
from ops.cpu.elementwise.reduce import Reductions, plain
from ops.cpu.elementwise.sums import BYTES_PER_NUMBER, join_moments, sum_moments
from ops.cpu.team.operands import F32, LOADED, Rows, address, halves, rows_of
from ops.cpu.team.streams import Stream
from ops.cpu.team.workspace import aligned
from ops.errors import Array


def _without_mean_and_slope(
    c: Code, dy: Vec, y: Vec, mean: Vec, slope: Vec, inverse: Vec
) -> list[Vec]:
    return [(dy - mean - y * slope) * inverse]


def _inverse(c: Code, variance: Vec, eps: Vec) -> list[Vec]:
    return [c.constant(1) / c.apply("sqrt", variance + eps)]


INVERSE = Stream("inverse_deviation", "inverse", "variance", _inverse, "eps")
NORMALISE = Stream(
    "normalise", "y", "x", lambda c, x, mean, inverse: [(x - mean) * inverse], fixed="mean inverse"
)  # fmt: skip
DIVIDE = Stream(
    "normalise_fixed_back", "dx", "dy", lambda c, dy, inverse: [dy * inverse], fixed="inverse"
)
NORMALISE_BACK = Stream(
    "normalise_back", "dx", "dy y", _without_mean_and_slope, fixed="mean slope inverse"
)

ADDED = Stream(
    "norm_added",
    "first second",
    "mean variance",
    lambda c, mean, variance, of_mean, of_variance: [mean * of_mean, variance * of_variance],
    "of_mean of_variance",
)
FILL = Stream("fill", "y", "x", lambda c, x, filled: [filled], "filled")


class Moments:
    """Mean and variance of x's channels, for arrays of one shape, one set of strides and one
    type."""

    def __init__(self, rows: Rows, threads: int, x: Array) -> None:
        channels = rows.length
        lanes = host().lanes
        width = channels + -channels % lanes
        sizes = (threads * width * BYTES_PER_NUMBER, aligned(threads * 8), threads * width * 4)
        self.starts = (0, sizes[0], sizes[0] + sizes[1])
        self.bytes = sum(sizes)
        self.kernel = sum_moments.storing(halves({"x": x}))
        self.block = self.kernel.block(
            rows=rows.number, channels=channels, width=width, sx=rows.strides[0]
        )
        self.join = join_moments.block(channels=channels, width=width, threads=threads)


class Normalisation(Reductions):
    """Batch normalisation over the rows of channels."""

    _moments: dict[Any, Moments | None] | None = None
    _kept: dict[int, tuple[Array, Array, Array]] | None = None

    def batch_norm_forward(
        self,
        x: Array,
        *,
        eps: float = 1e-5,
        statistics: tuple[Array, Array] | None = None,
        out: Array | None = None,
        mean: Array | None = None,
        variance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        found = self._normalised(x, eps, statistics, out, mean, variance)
        if found is not None:
            return found
        return super().batch_norm_forward(
            x, eps=eps, statistics=statistics, out=out, mean=mean, variance=variance
        )  # fmt: skip

    def _normalised(
        self, x: Array, eps: float, statistics: tuple[Array, Array] | None, out: Array | None,
        mean: Array | None, variance: Array | None,
    ) -> tuple[Array, Array, Array] | None:  # fmt: skip
        if x.ndim < 2 or x.dtype not in LOADED or x.size == 0:
            return None
        channels = x.shape[1]
        y = self.like(x, out)
        inverse = self.vectors(channels)[0]
        if statistics is not None:
            if mean is not None or variance is not None:
                return None
            mean, variance = statistics
        else:
            mean, variance = (self.empty((channels,)) if a is None else a for a in (mean, variance))
        if not self.streams.fits(NORMALISE, (y, x, mean, inverse), 1):
            return None
        if statistics is None and not self.measure(x, mean, variance):
            return None
        if not self.streams.run(INVERSE, (inverse, variance), (eps,)):
            return None
        self.streams.run(NORMALISE, (y, x, mean, inverse), axis=1)
        return y, mean, variance

    def vectors(self, channels: int) -> tuple[Array, Array, Array]:
        """Three rows of numbers per channel, kept between calls."""
        if self._kept is None:
            self._kept = {}
        if channels not in self._kept:
            self._kept[channels] = (
                np.empty(channels, F32),
                np.empty(channels, F32),
                np.empty(channels, F32),
            )
        return self._kept[channels]

    def measure(self, x: Array, mean: Array, variance: Array) -> bool:
        """Write mean and variance of x's channels. Returns False if the arrays do not fit."""
        if self._moments is None:
            self._moments = {}
        key = (x.shape, x.strides, x.dtype)
        if key not in self._moments:
            rows = rows_of([x], 1)
            self._moments[key] = None if rows is None else Moments(rows, self.team.size, x)
        plan = self._moments[key]
        if plan is None or not plain(mean, x.shape[1]) or not plain(variance, x.shape[1]):
            return False
        scratch = self.workspace.take(plan.bytes)
        block = plan.block
        join = plan.join
        block.sums, block.counts, block.points = (scratch + start for start in plan.starts)
        join.sums = block.sums
        join.counts = block.counts
        join.points = block.points
        block.x = address(x)
        join.mean = address(mean)
        join.variance = address(variance)
        self.team.run(plan.kernel, block)
        self.team.run(join_moments, join)
        return True

    def norm_added(
        self, mean: Array, variance: Array, share: float, unbiased: float, out: Sequence[Array]
    ) -> None:
        first, second, weight = out
        run = self.streams.run
        done = run(ADDED, (first, second, mean, variance), (share, unbiased))
        if not (done and run(FILL, (weight, weight), (share,))):
            super().norm_added(mean, variance, share, unbiased, out)

    def batch_norm_backward(
        self,
        dy: Array,
        y: Array,
        variance: Array,
        *,
        eps: float = 1e-5,
        fixed: bool = False,
        out: Array | None = None,
    ) -> Array:
        dx = self._gradient(dy, y, variance, eps, fixed, out)
        if dx is not None:
            return dx
        return super().batch_norm_backward(dy, y, variance, eps=eps, fixed=fixed, out=out)

    def _gradient(
        self, dy: Array, y: Array, variance: Array, eps: float, fixed: bool, out: Array | None
    ) -> Array | None:
        if dy.ndim < 2 or y.shape != dy.shape:
            return None
        dx, (inverse, mean, slope) = self.like(dy, out), self.vectors(dy.shape[1])
        if variance.shape != inverse.shape or not self.streams.run(
            INVERSE, (inverse, variance), (eps,)
        ):
            return None
        if fixed:
            return dx if self.streams.run(DIVIDE, (dx, dy, inverse), axis=1) else None
        operands = (dx, dy, y, mean, slope, inverse)
        plan = self.rows_along(dy, y, 1)
        if plan is None or not self.streams.fits(NORMALISE_BACK, operands, 1):
            return None
        self.sum_along(plan, dy, y, mean, slope, 1 / (dy.size // dy.shape[1]))
        self.streams.run(NORMALISE_BACK, operands, axis=1)
        return dx
