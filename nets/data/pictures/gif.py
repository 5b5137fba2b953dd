"""GIF, opened by Pillow, with the first frame as OpenCV shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.pictures.pillow_rows import array_of

_HAS_COLORS = 0x80  # in the file's header: a table of colours follows, with the background's
_COLORS = 13  # the place of this table


def planes(data: bytes, found: Any) -> NDArray[np.uint8]:
    """Return the pixels, (H, W, 3) BGR or (H, W, 1) grey. The background's colour is shown around
    the frame and in place of its clear pixels."""
    left, upper, right, lower = found.tile[0][1] if found.tile else (0, 0, *found.size)
    found.load()
    clear = found.info.pop("transparency", None)
    grey = found.mode == "L"
    pixels = array_of(found, lambda rows: np.array(rows.convert("L" if grey else "RGB")))
    pixels = pixels.reshape(found.height, found.width, -1)
    if data[10] & _HAS_COLORS:
        at = _COLORS + 3 * data[11]
        shown = np.zeros((found.height, found.width), bool)
        shown[upper:lower, left:right] = True
        if clear is not None and found.mode in ("P", "L"):
            shown &= np.asarray(found) != clear
        pixels[~shown] = list(data[at : at + pixels.shape[2]])
    return pixels[:, :, ::-1]
