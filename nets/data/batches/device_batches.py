"""Batches whose images a device transforms: it gets the bytes of the source, and for each image the
places of its crop, its flip and its erased box.

The places come from the same random numbers as on the host (`Transform`), and the device does the
same arithmetic.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.augmentation.augment import BLACK, floats
from nets.data.augmentation.erasing import erased_boxes
from nets.data.augmentation.transform import Transform, alternate_flips
from nets.data.batches.batches import Batches, Forms, Into
from nets.errors import DataError

# of each image: top and left of its crop in the source's image, below 0 in added pixels; 1 if it is
# mirrored; top, left, height and width of the box that is erased afterwards
PLACES = 7


class DeviceBatches:
    """The same batches as `batches`, whose transform `on_device` allows. It has the methods of
    `Batches` that a reader calls. `samples` returns the images of the source (n, C, H, W) uint8,
    the other arrays, and then the places of the images (n, PLACES) int32."""

    divisible = True

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.transform = batches.transforms[0]
        self.shapes = batches.shapes

    def __repr__(self) -> str:
        return f"<transformed on a device: {self._batches!r}>"

    @property
    def forms(self) -> Forms:
        """The shape of one sample, and the dtype, of each array that `samples` returns."""
        _, *others = self._batches.forms
        return [
            (self._batches.source.shape, np.dtype(np.uint8)),
            *others,
            ((PLACES,), np.dtype(np.int32)),
        ]

    def samples(self, low: int, high: int, into: Into | None = None) -> tuple[NDArray[Any], ...]:
        """Return samples [low, high), counted from the run's first sample. The arrays between the
        images and the places are those of `into`, if it is given."""
        positions = self._batches.positions(low, high)
        images, *others = self._batches.stored(positions)
        if images.dtype != np.uint8:
            raise DataError(
                f"{self._batches.source.name}: found images of {images.dtype}, expected bytes like "
                "the first"
            )
        outs = repeat(None) if into is None else into[1:]
        rest = (floats(array, out) for array, out in zip(others, outs, strict=False))
        return images, *rest, self._places(positions)

    def _places(self, positions_N: NDArray[np.int64]) -> NDArray[np.int32]:
        transform = self.transform
        seed = self._batches.seed
        train = transform.trains(self._batches.train)
        augment = transform.augment if train else None
        sides = self._batches.source.shape[1:]
        high, wide = transform.shape(self._batches.source.shape)[1:]
        pad = augment.pad if augment is not None else 0
        free = (sides[0] + 2 * pad - high, sides[1] + 2 * pad - wide)
        result = np.zeros((len(positions_N), PLACES), np.int32)
        result[:, :2] = transform.corners(free, positions_N, seed, train) - pad
        if transform.mirror and train:
            flips = None
            if transform.alternates(self._batches.train):
                flips = alternate_flips(seed, *self._batches.drawn(positions_N))
            result[:, 2] = transform.flipped(positions_N, seed, flips)
        if augment is not None and augment.erase:
            result[:, 3:] = erased_boxes((high, wide), positions_N, seed, augment.erase)
        return result


def on_device(batches: Batches) -> bool:
    """Whether a device can transform the images of these batches: bytes, of one source, that are
    padded with black, cropped, mirrored, scaled and erased. Images are cut to other sizes,
    recoloured, changed by RandAugment and mixed on the host."""
    source = batches.source
    transform: Transform = batches.transforms[0]
    augment = transform.augment
    return (
        len(batches.transforms) == 1
        and len(source.shape) == 3
        and source.divisible
        and batches.mixing is None
        and source.of_bytes
        and (augment is None or (augment.only_places and augment.padding == BLACK))
    )
