"""BMP, GIF, PNG, TIFF and WebP, decoded by Pillow, with the pixels of OpenCV.

Pillow's classes are opened directly: `Image.open` would warn of photographs of more than 89
megapixels, but the limit is `kinds.MAX_PIXELS`.
"""

from __future__ import annotations

import io
import warnings
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.pictures import gif, tiff
from nets.data.pictures.kinds import check_size
from nets.data.pictures.notices import NOTICES
from nets.data.pictures.orientation import UPRIGHT, of_exif
from nets.data.pictures.pillow_rows import array_of
from nets.errors import DataError
from nets.files.extras import need

FRAMES = "file with several frames or pages, of which the first is read"
_CLASSES = {
    "BMP": ("BmpImagePlugin", "BmpImageFile"),
    "GIF": ("GifImagePlugin", "GifImageFile"),
    "PNG": ("PngImagePlugin", "PngImageFile"),
    "TIFF": ("TiffImagePlugin", "TiffImageFile"),
    "WEBP": ("WebPImagePlugin", "WebPImageFile"),
}
_GREY = ("1", "L", "LA")
# in a pixel of 16 bits, OpenCV gives a colour's bits without filling the lower ones
_MASKS = {"BGR;15": (0xF8, 0xF8, 0xF8), "BGR;16": (0xF8, 0xFC, 0xF8)}
_PNG_GREY_AND_ALPHA = 4  # the colour type in a PNG's header
# Pillow warns of metadata that were cut, and of other faults that leave all pixels as they are
warnings.filterwarnings("ignore", module=r"PIL\.")
_TOO_DEEP = {"F": "floating-point numbers", "I": "numbers of 32 bits or with a sign"}


def read(kind: str, data: bytes, where: str, color: str) -> tuple[NDArray[np.uint8], int]:
    """Return the pixels, (H, W, 3) BGR or (H, W, 1) grey, and the orientation of EXIF that is still
    to be applied. For "gray" they may be grey already. Raises DataError for a damaged file."""
    need("PIL.Image", f"{where}: an image")
    module, name = _CLASSES[kind]
    opened = partial(_opened, getattr(import_module(f"PIL.{module}"), name), data)
    try:
        with opened() as found:
            check_size(found.height, found.width, where)
            _check_depth(found.mode, where)
            if kind == "TIFF":
                pixels = tiff.planes(opened, len(data), where)
            elif kind == "GIF":
                pixels = gif.planes(data, found)
            else:
                pixels = _planes(kind, data, found, color)
            # Pillow has turned a TIFF already
            exif = b"" if kind == "TIFF" else found.info.get("exif", b"")
            if _has_frames(found):
                NOTICES.note(where, FRAMES)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 (Pillow's parsers may raise any exception)
        raise DataError(f"{where}: damaged or not an image: {error}") from None
    return pixels, of_exif(exif) if isinstance(exif, bytes) else UPRIGHT


def _opened(image_file: Any, data: bytes) -> Any:
    return image_file(io.BytesIO(data))


def _check_depth(mode: str, where: str) -> None:
    if mode in _TOO_DEEP:
        raise DataError(
            f"{where}: found {_TOO_DEEP[mode]}, expected a picture of 8 or 16 bits per channel: "
            "convert it"
        )


def _planes(kind: str, data: bytes, found: Any, color: str) -> NDArray[np.uint8]:
    raw = found.tile[0][3] if found.tile else ()
    found.load()
    # Pillow would look for a colour for transparent pixels; OpenCV drops alpha
    found.info.pop("transparency", None)
    if found.mode.startswith("I;16"):
        return array_of(found, lambda rows: (np.asarray(rows) >> 8).astype(np.uint8))[:, :, None]
    mask = _MASKS.get(raw[0]) if kind == "BMP" and isinstance(raw, tuple) and raw else None
    if mask is not None:
        pixels: NDArray[np.uint8] = array_of(found, lambda rows: np.asarray(rows.convert("RGB")))
        return np.bitwise_and(pixels[:, :, ::-1], np.array(mask, np.uint8))
    grey = found.mode in _GREY or (kind == "PNG" and data[25] == _PNG_GREY_AND_ALPHA)
    if grey or color == "gray":  # Pillow's luminance differs from OpenCV's by at most 1
        return array_of(found, lambda rows: np.asarray(rows.convert("L")))[:, :, None]
    return array_of(found, lambda rows: np.asarray(rows.convert("RGB")))[:, :, ::-1]


def _has_frames(found: Any) -> bool:
    """Whether a file has a second frame or page. Damage behind the first frame does not count."""
    try:
        return bool(getattr(found, "is_animated", False))
    except Exception:  # noqa: BLE001 (Pillow's parsers may raise any exception)
        return False
