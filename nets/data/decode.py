"""Decoding of image files to arrays, as Caffe has them through OpenCV: planes in the order blue,
green, red. Also colour conversion and resizing.

Cropping is in `transform`.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import DataError
from nets.files.extras import need

COLORS = ("stored", "color", "gray")
# The formats that can be read, by Pillow's names, and the suffixes of their files. Each is a raster
# that Pillow or its C libraries decode in this process. Pillow's other formats do more: EPS starts
# Ghostscript, a whole programming language, on the file; Windows draws WMF; FLI, ICNS, PSD, SPIDER
# and others are parsers that no data set needs.
FORMATS = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpeg", ".jpg"),
    "PNG": (".png",),
    "PPM": (".pgm", ".ppm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
# 34 million, which take up to 600 MB during decoding: more is an accident or an attack
MAX_PIXELS = 1 << 25
_GREY_OF_BGR = np.array([0.114, 0.587, 0.299], np.float32)  # ITU-R BT.601, as OpenCV and JPEG


def image(data: bytes, where: str, color: str = "color") -> NDArray[np.uint8]:
    """Return the encoded image as bytes, (3, H, W) BGR or (1, H, W) grey. Raises DataError if it
    cannot be decoded.

    simplejpeg decodes JPEG, Pillow the other FORMATS.
    """
    pixels_HWC = (
        _jpeg(data, where, color) if data[:2] == b"\xff\xd8" else _other(data, where, color)
    )
    return np.ascontiguousarray(pixels_HWC.transpose(2, 0, 1))


def recolored(image_CHW: NDArray[Any], where: str, color: str) -> NDArray[Any]:
    """Return the image with three channels ("color"), one ("gray"), or unchanged ("stored")."""
    channels = len(image_CHW)
    if color == "stored" or channels == (3 if color == "color" else 1):
        return image_CHW
    if color == "color" and channels == 1:
        return np.repeat(image_CHW, 3, axis=0)
    if color == "gray" and channels == 3:
        grey = np.tensordot(_GREY_OF_BGR, image_CHW.astype(np.float32), 1)[None]
        return np.rint(grey).astype(image_CHW.dtype) if image_CHW.dtype == np.uint8 else grey
    raise DataError(f"{where}: found {channels} channels, expected 1 or 3 to make it '{color}'")


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
    result = rows[:, :, left] + across * (rows[:, :, right] - rows[:, :, left])
    return np.rint(result).astype(np.uint8) if image_CHW.dtype == np.uint8 else result


def _neighbours(
    old: int, new: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return, for each new pixel, the old pixels before and after its centre, and the centre's
    distance from the first of them."""
    places = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    low = places.astype(np.int64)
    return low, np.minimum(low + 1, old - 1), (places - low).astype(np.float32)


def _jpeg(data: bytes, where: str, color: str) -> NDArray[np.uint8]:
    simplejpeg = need("simplejpeg", f"{where}: JPEG")
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(data)
        _check_size(height, width, where)
        if space in ("CMYK", "YCCK"):
            return _other(data, where, color)
        wanted = "GRAY" if color == "gray" or (color == "stored" and space == "Gray") else "BGR"
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, wanted)
    except DataError:
        raise
    except (ValueError, RuntimeError, MemoryError) as error:
        raise DataError(f"{where}: damaged JPEG image: {error}") from None
    return pixels


def _other(data: bytes, where: str, color: str) -> NDArray[np.uint8]:
    pillow = need("PIL.Image", f"{where}: an image")
    try:
        with pillow.open(io.BytesIO(data), formats=tuple(FORMATS)) as found:
            _check_size(found.height, found.width, where)
            grey = color == "gray" or (color == "stored" and found.mode in ("1", "L", "LA"))
            pixels = np.asarray(found.convert("L" if grey else "RGB"))
    except DataError:
        raise
    except pillow.UnidentifiedImageError:
        text = (
            f"expected one of the formats {', '.join(FORMATS)}; the file's name does not matter; "
            "convert it to one of them"
        )
        raise DataError(f"{where}: damaged or not an image: {text}") from None
    except Exception as error:  # noqa: BLE001 (Pillow's parsers may raise any exception)
        raise DataError(f"{where}: damaged or not an image: {error}") from None
    return pixels[:, :, None] if grey else pixels[:, :, ::-1]


def _check_size(height: int, width: int, where: str) -> None:
    if height * width > MAX_PIXELS or min(height, width) < 1:
        raise DataError(
            f"{where}: found an image of {height} x {width}, expected at most {MAX_PIXELS} pixels"
        )
