"""RandAugment: some operations of one strength, drawn for each training image.
Source: Cubuk et al. 2020.

Operations and strengths are those of torchvision, and the pixels those of Pillow, which torchvision
calls. Images are bytes. Pixels that come from outside an image are black.

There are three families: a table of bytes for each plane (`byte_tables`), another source for each
pixel (`warps`), and a mixture with a grey or a smooth image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.augmentation import byte_tables, warps
from nets.data.augmentation.draws import draw
from nets.errors import DataError

Bytes = NDArray[np.uint8]

STEPS = 30  # strengths are multiples of a thirtieth of the largest one
LANE = 100  # the first lane of random numbers; each operation uses two
OPERATIONS = (
    "identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "color",
    "contrast", "sharpness", "posterize", "solarize", "autocontrast", "equalize",
)  # fmt: skip


@dataclass(frozen=True)
class RandAugment:
    """`operations` for each image, one after the other, with strength `magnitude`: 0 to 30.

    For half of the images the strength is negative, where that has a meaning.
    """

    operations: int = 2
    magnitude: int = 9

    def __call__(
        self, images_NCHW: NDArray[Any], positions_N: NDArray[np.int64], seed: int, order: str
    ) -> Bytes:
        """Return changed copies of images of bytes, with 1 or 3 planes in this `order`. Raises
        DataError for numbers of another type."""
        if images_NCHW.dtype != np.uint8:
            raise DataError(
                f"randaugment: found images of {images_NCHW.dtype}, expected bytes (uint8)"
            )
        result = np.ascontiguousarray(images_NCHW)
        for number in range(self.operations):
            lane = LANE + 2 * number
            which_N = (draw(seed, positions_N, lane) % len(OPERATIONS)).astype(np.int64)
            signs_N = np.where(draw(seed, positions_N, lane + 1) % 2 == 1, -1, 1)
            result = _changed(result, which_N, signs_N, self.magnitude / STEPS, order)
        return result


def _changed(
    images: Bytes, which_N: NDArray[np.int64], signs_N: NDArray[np.int64], part: float, order: str
) -> Bytes:
    """Return the images after operation `which_N` of each, with `part` of the largest strength."""
    result = images.copy()
    groups = {
        name: mine
        for number, name in enumerate(OPERATIONS)
        if len(mine := np.flatnonzero(which_N == number))
    }
    tables = {
        name: byte_tables.KINDS[name](images[mine], part, signs_N[mine], order)
        for name, mine in groups.items()
        if name in byte_tables.KINDS
    }
    if tables:
        mine = np.concatenate([groups[name] for name in tables])
        result[mine] = byte_tables.applied(images[mine], np.concatenate(list(tables.values())))
    for name in groups.keys() & warps.KINDS.keys():
        mine = groups[name]
        result[mine] = warps.applied(name, images[mine], part, signs_N[mine])
    for name, soft in (("color", byte_tables.grey), ("sharpness", smooth)):
        if name in groups:
            mine = groups[name]
            factors = 1 + byte_tables.BLEND * part * signs_N[mine]
            result[mine] = byte_tables.blended(soft(images[mine], order), images[mine], factors)
    return result


def smooth(images: Bytes, order: str) -> Bytes:
    """Return each pixel's mean with its eight neighbours, in which it counts five times. Pixels at
    the edge stay as they are."""
    result = images.copy()
    high, wide = images.shape[2:]
    if min(high, wide) < 3:
        return result
    wider = images.astype(np.int16)  # sums are at most 13 * 255
    rows = wider[:, :, :-2] + wider[:, :, 1:-1] + wider[:, :, 2:]
    sums = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * wider[:, :, 1:-1, 1:-1]
    result[:, :, 1:-1, 1:-1] = (2 * sums + 13) // 26  # the rounded thirteenth
    return result
