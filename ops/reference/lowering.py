"""Lowering and lifting: images to the matrix a convolution multiplies, and the adjoint back.

Lowering replicates data, and lifting the product copies nothing (Omnivore, appendix C.1: type 1).
Both work on channel-major images (C, N, H, W), so one matrix covers many images and one GEMM serves
them all. Each works in two steps, along the width and then along the height. The second step, which
moves most bytes, then copies whole planes of OH * OW elements instead of single rows. GEMM, bias
and groups are the callers' work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ops.errors import Array
from ops.geometry import ConvGeometry


def is_identity(geometry: ConvGeometry) -> bool:
    """Whether windows are single pixels, so that nothing is copied."""
    return geometry.kernel == (1, 1) and geometry.stride == (1, 1) and geometry.pad == (0, 0)


def lower(xp: Any, x_CNHW: Array, geometry: ConvGeometry) -> Array:
    """(C, N, H, W) -> windows (C, kh, kw, N, OH, OW); padding reads as zero. A 1x1 kernel gives a
    view."""
    if is_identity(geometry):
        return x_CNHW[:, None, None]
    channels, images, height, width = x_CNHW.shape
    (kh, kw), (rows, columns) = (
        geometry.kernel,
        (geometry.reaches(0, height), geometry.reaches(1, width)),
    )
    _, _, high, wide = geometry.output_shape((images, channels, height, width), geometry.groups)
    strips_CJNHQ = xp.empty((channels, kw, images, height, wide), x_CNHW.dtype)
    for j, (to, take) in enumerate(columns):
        if to != slice(0, wide):
            strips_CJNHQ[:, j] = 0
        strips_CJNHQ[:, j, :, :, to] = x_CNHW[:, :, :, take]
    windows_CIJNPQ: Array = xp.empty((channels, kh, kw, images, high, wide), x_CNHW.dtype)
    for i, (to, take) in enumerate(rows):
        if to != slice(0, high):
            windows_CIJNPQ[:, i] = 0
        windows_CIJNPQ[:, i, :, :, to] = strips_CJNHQ[:, :, :, take]
    return windows_CIJNPQ


def lift(xp: Any, windows_CIJNPQ: Array, geometry: ConvGeometry, dx_CNHW: Array) -> Array:
    """The adjoint of `lower`: adds every window element to the pixel it was read from; overwrites
    dx_CNHW."""
    if is_identity(geometry):
        dx_CNHW[...] = windows_CIJNPQ[:, 0, 0]
        return dx_CNHW
    channels, images, height, width = dx_CNHW.shape
    wide = windows_CIJNPQ.shape[-1]
    strips_CJNHQ = xp.zeros((channels, geometry.kernel[1], images, height, wide), dx_CNHW.dtype)
    for i, (to, take) in enumerate(geometry.reaches(0, height)):
        strips_CJNHQ[:, :, :, take] += windows_CIJNPQ[:, i, :, :, to]
    dx_CNHW[...] = 0
    for j, (to, take) in enumerate(geometry.reaches(1, width)):
        dx_CNHW[:, :, :, take] += strips_CJNHQ[:, j, :, :, to]
    return dx_CNHW


class Lowering(NamedTuple):
    """How a backend lowers: `b_p` images at a time (None: all), with these two functions or
    others."""

    b_p: int | None = None
    lower: Callable[[Any, Array, ConvGeometry], Array] = lower
    lift: Callable[[Any, Array, ConvGeometry, Array], Array] = lift
