"""Factors of planes, as in squeeze and excitation: x (N, C, H, W) times gamma (N, C). Stochastic
depth has factors of rows.

In memory [H][W][N][C] the factors of all images are one row, which each pixel repeats.
"""

from __future__ import annotations

import numpy as np

from ops.cpu.elementwise.activation import SCALE
from ops.cpu.elementwise.reduce import Reductions, plain
from ops.cpu.team.image_layout import TO_MEMORY
from ops.cpu.team.operands import F32
from ops.errors import Array, Shape
from ops.reference import philox


class PlaneFactors(Reductions):
    """The operations of scale for such factors without a bias, and `drop_rows`."""

    def scale_forward(
        self,
        x: Array,
        gamma: Array,
        beta: Array | None = None,
        axis: int = 1,
        out: Array | None = None,
    ) -> Array:
        y = self.like(x, out)
        if beta is None and axis == 0 and self._scaled(x, gamma, y):
            return y
        return super().scale_forward(x, gamma, beta, axis, out)

    def scale_backward_data(
        self, dy: Array, gamma: Array, axis: int = 1, out: Array | None = None
    ) -> Array:
        dx = self.like(dy, out)
        if axis == 0 and self._scaled(dy, gamma, dx):
            return dx
        return super().scale_backward_data(dy, gamma, axis, out)

    def drop_rows(
        self, x: Array, ratio: float, key: int, first: int = 0, out: Array | None = None
    ) -> Array:
        philox.check(ratio, key, first)
        self.team.spoil()  # NumPy draws the factors
        y = self.like(x, out)
        if x.ndim == 4:
            kept = philox.kept((len(x), 1), ratio, key, first).astype(F32)
            factors = np.repeat(kept * F32.type(1 / (1 - float(ratio))), x.shape[1], axis=1)
            if self._scaled(x, factors, y):
                return y
        return super().drop_rows(x, ratio, key, first, out)

    def _scaled(self, x: Array, gamma: Array, y: Array) -> bool:
        """y = x gamma. Returns False, and does nothing, if the kernel cannot read the arrays."""
        source, target = _pixels(x), _pixels(y)
        if source is None or target is None or gamma.shape != x.shape[:2]:
            return False
        return gamma.flags.c_contiguous and self.streams.run(
            SCALE, (target, source, gamma.reshape(-1)), axis=1
        )

    def scale_backward_weights(
        self, x: Array, dy: Array, shape: Shape, axis: int = 1, *, bias: bool,
        out_gamma: Array | None = None, out_beta: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        if not bias and axis == 0 and shape == x.shape[:2]:
            found = self._gradient_of_factors(x, dy, out_gamma)
            if found is not None:
                return found, None
        return super().scale_backward_weights(
            x, dy, shape, axis, bias=bias, out_gamma=out_gamma, out_beta=out_beta
        )

    def _gradient_of_factors(self, x: Array, dy: Array, out: Array | None) -> Array | None:
        dgamma = self.empty(x.shape[:2], F32) if out is None else out
        pixels = _pixels(x), _pixels(dy)
        if pixels[0] is None or pixels[1] is None or not dgamma.flags.c_contiguous:
            return None
        plan = self.rows_along(pixels[1], pixels[0], 1)
        row = dgamma.reshape(-1)
        if plan is None or dgamma.shape != x.shape[:2] or not plain(row, row.size):
            return None
        self.sum_along(plan, pixels[1], pixels[0], None, row)
        return dgamma


def _pixels(x: Array) -> Array | None:
    """Images in memory [H][W][N][C] as (H W, N C). None if they lie otherwise."""
    if x.ndim != 4 or not x.transpose(TO_MEMORY).flags.c_contiguous:
        return None
    n, c, h, w = x.shape
    return x.transpose(TO_MEMORY).reshape(h * w, n * c)
