"""The transform of images of bytes: crop, mirror, mean, scale and deviation, erased boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ops.errors import Array, OpsError


def transform(
    x: Array,
    places: Array,
    size: tuple[int, int],
    mean: Sequence[float],
    scale: float,
    deviation: Sequence[float],
    *,
    turned: bool,
) -> Array:
    """See `ops.interface.pixels`."""
    check(x, places)
    planes = x[:, ::-1] if turned else x
    high, wide = x.shape[2:]
    y = np.zeros((*x.shape[:2], *size), np.float32)
    for image, found, (top, left, flip, *_) in zip(y, planes, places.tolist(), strict=True):
        rows = slice(max(0, -top), min(size[0], high - top))
        columns = slice(max(0, -left), min(size[1], wide - left))
        image[:, rows, columns] = found[
            :, top + rows.start : top + rows.stop, left + columns.start : left + columns.stop
        ]
        if flip:
            image[...] = image[:, :, ::-1].copy()
    y -= np.asarray(mean, np.float32)[:, None, None]
    y *= np.float32(scale)
    y /= np.asarray(deviation, np.float32)[:, None, None]
    for image, (*_, top, left, tall, broad) in zip(y, places.tolist(), strict=True):
        image[:, top : top + tall, left : left + broad] = 0
    return y


def check(x: Array, places: Array) -> None:
    """Raise OpsError unless x are images of bytes and `places` has a row for each."""
    if x.ndim != 4 or x.dtype != np.uint8:
        raise OpsError(
            f"transform_pixels: x: found {x.dtype} {x.shape}, expected uint8 (N, C, H, W)"
        )
    if places.shape != (len(x), 7) or places.dtype != np.int32:
        raise OpsError(
            f"transform_pixels: places: found {places.dtype} {places.shape}, expected int32 "
            f"({len(x)}, 7)"
        )
