"""Group normalisation of images, by the kernels of batch normalisation.

Images in memory [H][W][N][C] are H W rows of N C columns. The kernels give moments and sums of each
column, that is of each channel of each image. Joining the columns of a group takes a few numbers
for each image, in float64.
"""

from __future__ import annotations

import numpy as np

from ops.cpu.elementwise.normalise import NORMALISE, NORMALISE_BACK, Normalisation
from ops.cpu.team.image_layout import TO_MEMORY
from ops.cpu.team.operands import F32
from ops.errors import Array


class GroupNormalisation(Normalisation):
    """Group normalisation of float32 images that lie as [H][W][N][C] without gaps."""

    def group_norm_forward(
        self,
        x: Array,
        *,
        groups: int,
        eps: float = 1e-5,
        out: Array | None = None,
        inverse: Array | None = None,
    ) -> tuple[Array, Array]:
        self.team.spoil()  # NumPy finds the statistics of groups
        y = self.like(x, out)
        columns = _columns(x, groups), _columns(y, groups)
        shape = (x.shape[0], groups)
        found = np.empty(shape, F32) if inverse is None else inverse
        writes = _fits(found, shape) and found.flags.writeable
        if columns[0] is None or columns[1] is None or not writes:
            return super().group_norm_forward(x, groups=groups, eps=eps, out=out, inverse=inverse)
        mean, scale, variance = self.vectors(columns[0].shape[1])
        operands = (columns[1], columns[0], mean, scale)
        ready = self.streams.fits(NORMALISE, operands, 1)
        if not ready or not self.measure(columns[0], mean, variance):
            return super().group_norm_forward(x, groups=groups, eps=eps, out=out, inverse=inverse)
        means, variances = (a.astype(np.float64).reshape(*shape, -1) for a in (mean, variance))
        centre = means.mean(axis=2, keepdims=True)
        spread = (variances + np.square(means - centre)).mean(axis=2)
        found[...] = 1 / np.sqrt(spread + float(eps))
        mean.reshape(*shape, -1)[...] = centre
        scale.reshape(*shape, -1)[...] = found[:, :, None]
        self.streams.run(NORMALISE, operands, axis=1)
        return y, found

    def group_norm_backward(
        self, dy: Array, y: Array, inverse: Array, *, groups: int, out: Array | None = None
    ) -> Array:
        self.team.spoil()
        dx = self.like(dy, out)
        shape = (dy.shape[0], groups)
        folded = [_columns(a, groups) for a in (dx, dy, y)]
        into, given, result = folded
        if into is None or given is None or result is None or not _fits(inverse, shape):
            return super().group_norm_backward(dy, y, inverse, groups=groups, out=out)
        scale, mean, slope = self.vectors(given.shape[1])
        operands = (into, given, result, mean, slope, scale)
        plan = self.rows_along(given, result, 1)
        if plan is None or not self.streams.fits(NORMALISE_BACK, operands, 1):
            return super().group_norm_backward(dy, y, inverse, groups=groups, out=out)
        self.sum_along(plan, given, result, mean, slope, 1 / len(given))
        for sums in (mean, slope):
            of_group = sums.reshape(*shape, -1)
            of_group[...] = of_group.mean(axis=2, keepdims=True, dtype=np.float64)
        scale.reshape(*shape, -1)[...] = inverse[:, :, None]
        self.streams.run(NORMALISE_BACK, operands, axis=1)
        return dx


def _columns(x: Array, groups: int) -> Array | None:
    """x (N, C, H, W) as H W rows of N C numbers, a view. None if it does not lie so, or if the
    groups do not fit."""
    if x.ndim != 4 or x.dtype != F32 or x.size == 0 or groups < 1 or x.shape[1] % groups:
        return None
    in_memory = x.transpose(TO_MEMORY)
    high, wide, images, channels = in_memory.shape
    if not in_memory.flags.c_contiguous:
        return None
    return in_memory.reshape(high * wide, images * channels)


def _fits(inverse: Array, shape: tuple[int, int]) -> bool:
    return inverse.shape == shape and inverse.dtype == F32
