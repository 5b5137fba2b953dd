"""Bilinear resizing of images, with the pixels of OpenCV's INTER_LINEAR."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def resized(image_CHW: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Return the image at (height, width), interpolated bilinearly between the four nearest pixel
    centres. This is OpenCV's INTER_LINEAR, which does not average when it shrinks. Bytes are
    rounded."""
    if image_CHW.shape[1:] == (height, width):
        return image_CHW
    top, bottom, down = _neighbours(image_CHW.shape[1], height)
    left, right, across = _neighbours(image_CHW.shape[2], width)
    rows = image_CHW[:, top].astype(np.float32)
    rows += down[:, None] * (image_CHW[:, bottom] - rows)
    result = rows.take(right, 2)
    before = rows.take(left, 2)
    result -= before
    result *= across
    result += before
    return np.rint(result).astype(np.uint8) if image_CHW.dtype == np.uint8 else result


def _neighbours(
    old: int, new: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return, for each new pixel, the old pixels before and after its centre, and the centre's
    distance from the first of them."""
    places = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    low = places.astype(np.int64)
    return low, np.minimum(low + 1, old - 1), (places - low).astype(np.float32)
