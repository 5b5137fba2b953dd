"""JPEG, decoded by simplejpeg, which is libjpeg-turbo with the settings of OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.pictures.kinds import MAX_PIXELS, check_size
from nets.data.pictures.notices import NOTICES
from nets.data.pictures.segments import mended
from nets.errors import DataError
from nets.files.extras import need

# 134 million: photographs of 108 megapixels are read if a small picture is wanted. A progressive
# file keeps all its coefficients in memory, up to 6 bytes for a pixel.
MAX_SCALED = 1 << 27
WARNED = "JPEG with a fault that libjpeg only warns of"
_END = b"\xff\xd9"
_SCAN = b"\xff\xda"
# libjpeg's warning where an end marker comes before the last rows
_NO_ROWS = "premature end of data segment"
_FOUR_INKS = ("CMYK", "YCCK")
_TRANSFORMS = {"YCbCr": 1, "YCCK": 2}  # Adobe's numbers of a file's colours


def read(
    data: bytes, where: str, color: str, size: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """Return the pixels (H, W, 3) BGR or (H, W, 1) grey: luminance for "gray", the file's own
    number for "stored". Raises DataError for a damaged file.

    `size`: (height, width) that the picture will be resized to. A picture of more than MAX_PIXELS
    is then scaled while it is decoded, to at least twice this size. Smaller pictures are never
    scaled: their pixels would differ from OpenCV's.
    """
    simplejpeg = need("simplejpeg", f"{where}: JPEG")
    try:
        return _read(simplejpeg, data, where, color, size)
    except DataError:
        raise
    except KeyError:  # the header has no colours
        raise DataError(
            f"{where}: damaged JPEG image: found no picture in its header: the file was cut, or "
            "its colours are unknown"
        ) from None
    except (ValueError, RuntimeError, MemoryError) as error:
        raise DataError(f"{where}: damaged JPEG image: {error}") from None


def _read(
    simplejpeg: Any, data: bytes, where: str, color: str, size: tuple[int, int] | None
) -> NDArray[np.uint8]:
    fault = ""
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError as error:  # perhaps only a warning
        fault = str(error)
        height, width, space, _ = simplejpeg.decode_jpeg_header(data, strict=False)
        # simplejpeg decodes no file with such a warning
        data = mended(data, _TRANSFORMS.get(space, 0))
    scale = _scale(simplejpeg, data, where, (height, width), size)
    if space in _FOUR_INKS:
        wanted = "CMYK"
    else:
        grey = color == "gray" or (color == "stored" and space == "Gray")
        wanted = "GRAY" if grey else "BGR"
    try:
        pixels = simplejpeg.decode_jpeg(data, wanted, **scale)
    except ValueError as error:
        fault = fault or str(error)
        pixels = simplejpeg.decode_jpeg(_whole(simplejpeg, data), wanted, strict=False, **scale)
    if fault:
        NOTICES.note(where, WARNED, fault)
    return _bgr(pixels, wanted)


def _scale(
    simplejpeg: Any, data: bytes, where: str, found: tuple[int, int], size: tuple[int, int] | None
) -> dict[str, int]:
    """Return the options that scale a large picture to at least twice `size` while it is decoded:
    bilinear resizing then has all the pixels that it would look at. No options for a picture of
    at most MAX_PIXELS."""
    if found[0] * found[1] <= MAX_PIXELS:
        check_size(*found, where)
        return {}
    if size is None or found[0] * found[1] > MAX_SCALED:
        most = f", or {MAX_SCALED} with new_height and new_width" if size is None else ""
        check_size(*found, where, most)
    assert size is not None
    scale = {"min_height": 2 * size[0], "min_width": 2 * size[1]}
    height, width, *_ = simplejpeg.decode_jpeg_header(data, strict=False, **scale)
    check_size(height, width, where)
    return scale


def _whole(simplejpeg: Any, data: bytes) -> bytes:
    """Return the file with an end marker. Raises ValueError if it was cut: the data end before the
    last row of pixels."""
    if data.rfind(_END) > data.rfind(_SCAN):
        return data
    whole = data + _END
    try:
        simplejpeg.decode_jpeg(whole)
    except ValueError as error:
        if _NO_ROWS in str(error):
            raise ValueError("the file was cut: the data end before the last row") from None
    return whole


def _bgr(pixels_HWC: NDArray[np.uint8], space: str) -> NDArray[np.uint8]:
    """Return BGR for the four inks of a printer, by OpenCV's formula. Other pixels are unchanged.

    The inks are inverted, as Adobe's programs write them.
    """
    if space != "CMYK":
        return pixels_HWC
    inks = pixels_HWC.astype(np.uint16)
    black = inks[:, :, 3:]
    rgb = black - ((255 - inks[:, :, :3]) * black >> 8)
    return rgb[:, :, ::-1].astype(np.uint8)
