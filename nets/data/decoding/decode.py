"""Decoding of image files to arrays, as Caffe has them through OpenCV: planes in the order blue,
green, red. Also colour conversion and resizing.

Cropping is in `transform`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data.pictures import jpeg, netpbm, rasters
from nets.data.pictures.kinds import FORMATS, MAX_PIXELS, UNSUPPORTED, kind_of
from nets.data.pictures.orientation import SIDEWAYS, UPRIGHT, of_jpeg, turned
from nets.data.pictures.resizing import resized
from nets.errors import DataError

__all__ = [
    "COLORS",
    "FORMATS",
    "MAX_PIXELS",
    "ORIENTATIONS",
    "UNSUPPORTED",
    "image",
    "recolored",
]

COLORS = ("stored", "color", "gray")
ORIENTATIONS = ("exif", "stored")  # as EXIF says, or the rows as they are in the file
_GREY_OF_BGR = np.array([0.114, 0.587, 0.299], np.float32)  # ITU-R BT.601, as OpenCV and JPEG
# OpenCV's weights of bytes: integers of 14 bits, whose sums float32 holds exactly
_GREY_INTEGERS = np.array([1868, 9617, 4899], np.float32)
_GREY_UNIT = np.float32(2**14)


def image(
    data: bytes,
    where: str,
    color: str = "color",
    orientation: str = "exif",
    size: tuple[int, int] | None = None,
) -> NDArray[np.uint8]:
    """Return the encoded image as bytes, (3, H, W) BGR or (1, H, W) grey, with the pixels of
    OpenCV's imread. Raises DataError, which names `where`, if it cannot be decoded.

    `color`: one of COLORS. `orientation`: one of ORIENTATIONS. `size`: (height, width) to resize
    to. simplejpeg decodes JPEG, Pillow the other FORMATS, and `netpbm` PGM and PPM.
    """
    found = recolored(_decoded(data, where, color, orientation, size), where, color)
    return resized(found, *size) if size else found


def _decoded(
    data: bytes, where: str, color: str, orientation: str, size: tuple[int, int] | None
) -> NDArray[np.uint8]:
    """Return the pixels (3, H, W) BGR or (1, H, W) grey, turned, but of any size."""
    kind = kind_of(data, where)
    turn = UPRIGHT
    if kind == "JPEG":
        turn = of_jpeg(data) if orientation == "exif" else UPRIGHT
        stored_size = size[::-1] if size and turn >= SIDEWAYS else size
        pixels_HWC = jpeg.read(data, where, color, stored_size)
    elif kind == "PPM":
        pixels_HWC = netpbm.read(data, where)
    else:
        pixels_HWC, turn = rasters.read(kind, data, where, color)
    if orientation == "exif" and turn != UPRIGHT:
        pixels_HWC = turned(pixels_HWC, turn)
    return np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1))


def recolored(image_CHW: NDArray[Any], where: str, color: str) -> NDArray[Any]:
    """Return the image with three channels ("color"), one ("gray"), or unchanged ("stored")."""
    channels = len(image_CHW)
    if color == "stored" or channels == (3 if color == "color" else 1):
        return image_CHW
    if color == "color" and channels == 1:
        return np.repeat(image_CHW, 3, axis=0)
    if color == "gray" and channels == 3:
        return _grey(image_CHW)
    raise DataError(
        f"{where}: found {counted(channels, 'channel')}, expected 1 or 3 to make it '{color}'"
    )


def _grey(image_CHW: NDArray[Any]) -> NDArray[Any]:
    """Return the luminance (1, H, W) of a BGR image. Of bytes it is the byte that OpenCV
    computes."""
    if image_CHW.dtype != np.uint8:
        floats: NDArray[np.float32] = np.tensordot(_GREY_OF_BGR, image_CHW.astype(np.float32), 1)
        return floats[None]
    total: NDArray[np.float32] = image_CHW[0] * _GREY_INTEGERS[0]
    total += image_CHW[1] * _GREY_INTEGERS[1]
    total += image_CHW[2] * _GREY_INTEGERS[2]
    total += _GREY_UNIT / 2
    total /= _GREY_UNIT
    return total.astype(np.uint8)[None]
