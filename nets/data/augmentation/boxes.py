"""Random boxes in images: a share of the area, a ratio of the sides, and a place."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nets.data.augmentation.draws import uniform

TRIES = 10  # boxes to draw for an image before it has none


def sizes(
    sides: tuple[int, ...],
    positions_N: NDArray[np.int64],
    seed: int,
    lane: int,
    shares: tuple[float, float],
    ratios: tuple[float, float],
) -> NDArray[np.int64]:
    """Return (height, width) of a box in each image of `sides` (H, W), (N, 2): the first of some
    draws that fits, or (0, 0). Its share of the area is drawn from `shares`. Its ratio of width to
    height is drawn from `ratios`, evenly on a logarithmic scale. Uses the lanes from `lane` on, two
    for each draw."""
    high, wide = sides
    least, most = shares
    low, top = (math.log(side) for side in ratios)
    result = np.zeros((len(positions_N), 2), np.int64)
    missing = np.arange(len(positions_N))
    for first in range(lane, lane + 2 * TRIES, 2):
        places = positions_N[missing]
        area = high * wide * (least + (most - least) * uniform(seed, places, first))
        ratio = np.exp(low + (top - low) * uniform(seed, places, first + 1))
        drawn = np.stack([np.rint(np.sqrt(area / ratio)), np.rint(np.sqrt(area * ratio))], 1)
        fits = ((drawn > 0) & (drawn <= (high, wide))).all(1)
        result[missing[fits]] = drawn[fits].astype(np.int64)
        missing = missing[~fits]
        if not len(missing):
            break
    return result


def corners(
    sides: tuple[int, ...],
    sizes_N2: NDArray[np.int64],
    positions_N: NDArray[np.int64],
    seed: int,
    lane: int,
) -> NDArray[np.int64]:
    """Return (top, left) of boxes of these sizes, (N, 2), evenly over all places in images of
    `sides`. Uses two lanes."""
    free = np.array(sides) - sizes_N2
    places = np.stack([uniform(seed, positions_N, lane + axis) for axis in (0, 1)], 1)
    return np.floor(places * (free + 1)).astype(np.int64)
