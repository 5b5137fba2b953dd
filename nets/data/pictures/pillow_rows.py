"""Pixels of a picture of Pillow as one array, made some rows at a time.

Pillow keeps 4 bytes for a pixel of colour. Each step from there to an array, such as a conversion
of the colours, would have another copy of the whole picture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_A_TIME = 1 << 18  # pixels


def array_of(found: Any, change: Callable[..., NDArray[Any]], *more: Any) -> NDArray[Any]:
    """Return the rows (H, W) or (H, W, planes) that `change` makes of the rows of a picture.
    `more`: pictures of the same size, whose rows `change` takes, too."""
    pictures = (found, *more)
    for picture in pictures:
        picture.load()  # the size of a TIFF that is turned is then known
    width, height = found.size
    rows = max(1, _AT_A_TIME // width)
    if rows >= height:
        return change(*pictures)
    bands = ((0, top, width, min(top + rows, height)) for top in range(0, height, rows))
    result: NDArray[Any] | None = None
    for box in bands:
        band = change(*(picture.crop(box) for picture in pictures))
        if result is None:
            result = np.empty((height, *band.shape[1:]), band.dtype)
        result[box[1] : box[3]] = band
    assert result is not None
    return result
