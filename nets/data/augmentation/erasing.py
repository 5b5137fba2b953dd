"""Random erasing: a random box of a training image becomes zero (Zhong et al. 2017)."""

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
    chosen = np.flatnonzero(uniform(seed, positions_N, WHETHER) < probability)
    places = positions_N[chosen]
    sides = images_NCHW.shape[2:]
    sizes = boxes.sizes(sides, places, seed, BOX, SHARES, RATIOS)
    corners = boxes.corners(sides, sizes, places, seed, PLACE)
    for at, (high, wide), (top, left) in zip(chosen, sizes, corners, strict=True):
        images_NCHW[at, :, top : top + high, left : left + wide] = 0
