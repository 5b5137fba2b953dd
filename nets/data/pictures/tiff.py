"""TIFF, opened by Pillow, with the pixels that libtiff gives to OpenCV."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.pictures import libtiff
from nets.data.pictures.notices import NOTICES
from nets.data.pictures.pillow_rows import array_of
from nets.data.pictures.tiff_layout import check_layout
from nets.errors import DataError

WARNED = "TIFF with a fault that libtiff only warns of"
# tags of TIFF
_BITS = 258
_PHOTOMETRIC = 262
_COLORMAP = 320
_WHITE_IS_ZERO = 0
_SIXTEEN = re.compile(r"(?<=;16)[LBN]$")
_OTHER_BYTE = {"L": "B", "B": "L", "N": "B" if sys.byteorder == "little" else "L"}


def planes(opened: Callable[[], Any], length: int, where: str) -> NDArray[np.uint8]:
    """Return the pixels, (H, W, 3) BGR or (H, W, 1) grey. `opened` opens the file of `length` bytes
    anew. Raises DataError for a damaged file.

    Of 16 bits grey has the upper 8, colour is rounded. Alpha that colours do not contain yet is
    multiplied into them, as libtiff does for OpenCV; it is dropped in all other formats.
    """
    with libtiff.messages() as told:
        try:
            with opened() as found:
                check_layout(found.tag_v2, length, where)
                pixels = _planes(found, opened)
        except OSError as error:
            raise DataError(f"{where}: damaged TIFF image: {told[0] if told else error}") from None
    if told:
        NOTICES.note(where, WARNED, told[0])
    return pixels


def _planes(found: Any, opened: Callable[[], Any]) -> NDArray[np.uint8]:
    tags = found.tag_v2
    bits = int(tags.get(_BITS, (1,))[0])
    white_is_zero = tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO
    colors = tags.get(_COLORMAP)
    premultiplied = any("RGBa" in str(tile[3][0]) for tile in found.tile)
    _change_rawmode(found, lambda raw: raw.replace("RGBa", "RGBA"))
    mode = found.mode
    if mode.startswith("I;16"):
        grey = array_of(found, lambda rows: (np.asarray(rows) >> (bits - 8)).astype(np.uint8))
        return (~grey if white_is_zero else grey)[:, :, None]
    if mode in ("P", "PA"):
        index = array_of(found, np.asarray)
        return _palette(colors).take(index[:, :, 0] if index.ndim == 3 else index, axis=0)
    if mode in ("LA", "La"):
        return array_of(found, np.asarray)[:, :, :1]
    if mode not in ("RGB", "RGBA"):
        wanted = "L" if mode in ("1", "L") else "RGB"
        pixels = array_of(found, lambda rows: np.asarray(rows.convert(wanted)))
        return pixels[:, :, None] if wanted == "L" else pixels[:, :, ::-1]
    change = _multiplied if mode == "RGBA" and not premultiplied else _without_alpha
    if bits != 16:
        return array_of(found, lambda rows: change(np.asarray(rows)))[:, :, ::-1]
    with opened() as exchanged:
        _change_rawmode(exchanged, lambda raw: raw.replace("RGBa", "RGBA"))
        _change_rawmode(exchanged, lambda raw: _SIXTEEN.sub(lambda end: _OTHER_BYTE[end[0]], raw))
        return array_of(found, lambda *both: change(_rounded(*both)), exchanged)[:, :, ::-1]


def _change_rawmode(found: Any, change: Callable[[str], str]) -> None:
    """Change the order of bytes in which Pillow reads a pixel."""
    found.tile = [
        getattr(type(tile), "_make", tuple)((*tile[:3], (change(tile[3][0]), *tile[3][1:])))
        for tile in found.tile
    ]


def _rounded(upper: Any, lower: Any) -> NDArray[np.uint8]:
    """Return 16 bits as 8, rounded. Pillow keeps only the upper byte, so the file is read a second
    time, with the two bytes of a number exchanged."""
    whole = np.asarray(upper).astype(np.uint32) << 8
    whole += np.asarray(lower)
    return ((whole + 128) // 257).astype(np.uint8)


def _multiplied(pixels_HWC: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return RGB, multiplied by alpha."""
    alpha = pixels_HWC[:, :, 3:].astype(np.uint32)
    return ((pixels_HWC[:, :, :3] * alpha + 127) // 255).astype(np.uint8)


def _without_alpha(pixels_HWC: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return pixels_HWC[:, :, :3]


def _palette(colormap: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the colours (N, 3) BGR of a palette. Some programs wrote bytes in place of 16 bits."""
    colors = np.array(colormap, np.uint32).reshape(3, -1)
    if colors.max() > 255:
        colors >>= 8
    return colors[::-1].T.astype(np.uint8)
