"""Synthetic images that a net can learn: one fixed random pattern per class, plus noise."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import generator
from nets.errors import DataError

MAX_VALUES = 1 << 27  # 512 MiB: 130 000 images of LeNet's size, or a thousand of CaffeNet's
NOISE = 0.5  # standard deviation; the patterns have 1: learnable, not trivial


def make(
    *, base_dir: Path, shape: tuple[int, ...] = (1, 28, 28), classes: int = 10, size: int = 1000,
    seed: int = 0, sample: int = 0,
) -> tuple[NDArray[Any], NDArray[np.int64], int]:  # fmt: skip
    """Return images (size, *shape) float32, labels i % classes, and `classes`.

    `seed` decides the patterns and `sample` the noise: a test set has the same seed and another
    `sample`.
    """
    if len(shape) != 3 or min(shape) < 1:
        raise DataError(
            f"synthetic: shape: found {list(shape)}, expected three integers >= 1 (C, H, W)"
        )
    for name, value, least in (
        ("classes", classes, 1),
        ("size", size, 1),
        ("seed", seed, 0),
        ("sample", sample, 0),
    ):
        if value < least:
            raise DataError(f"synthetic: {name}: found {value}, expected an integer >= {least}")
    met = min(classes, size)  # the number of classes that have an image
    values = (size + met) * math.prod(shape)
    if values > MAX_VALUES:
        text = (
            f"found {size} images and {met} patterns of shape {list(shape)}, {values} "
            "numbers in memory"
        )
        raise DataError(f"synthetic: {text}: expected at most {MAX_VALUES}")
    patterns = generator(seed, "pattern").standard_normal((met, *shape), dtype=np.float32)
    labels = np.arange(size, dtype=np.int64) % classes
    images = generator(seed, "noise", sample).standard_normal((size, *shape), dtype=np.float32)
    images *= NOISE
    images += patterns[labels]
    return images, labels, classes
