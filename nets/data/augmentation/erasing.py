"""Random erasing: a random box of a training image becomes zero. Source: Zhong et al. 2017."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nets.data.augmentation import boxes
from nets.data.augmentation.draws import uniform

SHARES = (0.02, 0.33)  # of an image's area, as in torchvision and timm
RATIOS = (0.3, 3.3)  # of width to height
WHETHER = 60  # the first lane of random numbers for each purpose
PLACE = 62
BOX = 64


def erase(
    images_NCHW: NDArray[np.float32],
    positions_N: NDArray[np.int64],
    seed: int,
    probability: float,
) -> None:
    """Set a box of some images to zero, in place. `probability` is the share of these images. An
    image into which no drawn box fits is left as it is."""
    erased = erased_boxes(images_NCHW.shape[2:], positions_N, seed, probability)
    for image_CHW, (top, left, high, wide) in zip(images_NCHW, erased, strict=True):
        image_CHW[:, top : top + high, left : left + wide] = 0


def erased_boxes(
    sides: tuple[int, ...], positions_N: NDArray[np.int64], seed: int, probability: float
) -> NDArray[np.int64]:
    """Return the box that is erased in each image of `sides` (H, W), (N, 4): top, left, height and
    width, all 0 if none is."""
    result = np.zeros((len(positions_N), 4), np.int64)
    chosen = np.flatnonzero(uniform(seed, positions_N, WHETHER) < probability)
    places = positions_N[chosen]
    sizes = boxes.sizes(sides, places, seed, BOX, SHARES, RATIOS)
    result[chosen, :2] = boxes.corners(sides, sizes, places, seed, PLACE)
    result[chosen, 2:] = sizes
    return result
