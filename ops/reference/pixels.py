"""The transform of images of bytes: crop, mirror, mean, scale and deviation, erased boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ops.errors import Array, OpsError


@dataclass(frozen=True, eq=False)
class ImageForm:
    """The part of a transform that all images share: (rows, columns) of the result, whether the
    planes are turned, then (bytes - mean) * scale / deviation. `mean` and `deviation` have a number
    for each plane of the result. `mean_image` (C, H, W), float32 on the host, has one more number
    for each pixel of the source's images, with the planes of the result. A backend keeps copies of
    these numbers for each form."""

    size: tuple[int, int]
    turned: bool
    mean: tuple[float, ...]
    scale: float
    deviation: tuple[float, ...]
    mean_image: Array | None = None


def transform(x: Array, places: Array, form: ImageForm) -> Array:
    """See `ops.interface.pixels`."""
    check(x, places, form.mean_image)
    planes = x[:, ::-1] if form.turned else x
    if form.mean_image is not None:
        planes = planes - form.mean_image
    high, wide = x.shape[2:]
    size = form.size
    y = np.zeros((*x.shape[:2], *size), np.float32)
    for image, found, (top, left, flip, *_) in zip(y, planes, places.tolist(), strict=True):
        rows = slice(max(0, -top), min(size[0], high - top))
        columns = slice(max(0, -left), min(size[1], wide - left))
        image[:, rows, columns] = found[
            :, top + rows.start : top + rows.stop, left + columns.start : left + columns.stop
        ]
        if flip:
            image[...] = image[:, :, ::-1].copy()
    y -= np.asarray(form.mean, np.float32)[:, None, None]
    y *= np.float32(form.scale)
    y /= np.asarray(form.deviation, np.float32)[:, None, None]
    for image, (*_, top, left, tall, broad) in zip(y, places.tolist(), strict=True):
        image[:, top : top + tall, left : left + broad] = 0
    return y


def check(x: Array, places: Array, mean_image: Array | None) -> None:
    """Raise OpsError unless x are images of bytes, `places` has a row for each, and the mean image
    is one of them in float32."""
    if x.ndim != 4 or x.dtype != np.uint8:
        raise OpsError(
            f"transform_pixels: x: found {x.dtype} {x.shape}, expected uint8 (N, C, H, W)"
        )
    if places.shape != (len(x), 7) or places.dtype != np.int32:
        raise OpsError(
            f"transform_pixels: places: found {places.dtype} {places.shape}, expected int32 "
            f"({len(x)}, 7)"
        )
    if mean_image is not None and (
        mean_image.shape != x.shape[1:] or mean_image.dtype != np.float32
    ):
        raise OpsError(
            f"transform_pixels: mean_image: found {mean_image.dtype} {mean_image.shape}, expected "
            f"float32 {x.shape[1:]}"
        )
