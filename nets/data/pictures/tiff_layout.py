"""The places of a TIFF's pixels in its file: strips and tiles, which are checked before decoding.

Pillow leaves pixels black if the header names no strip for them. libtiff does not open such a
picture for OpenCV.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data.pictures.notices import NOTICES
from nets.errors import DataError

SHORT = "TIFF whose header counts too few bytes for a strip, of which all rows are read"
# tags of TIFF
_WIDTH, _HEIGHT = 256, 257
_BITS = 258
_COMPRESSION = 259
_PHOTOMETRIC = 262
_SAMPLES = 277
_ROWS = 278  # of a strip
_PLANAR = 284
_TILE_WIDTH, _TILE_HEIGHT = 322, 323
_STRIPS = 273, 279  # the places in the file, and the numbers of bytes
_TILES = 324, 325
_UNCOMPRESSED = 1
_OLD_JPEG = 6  # keeps its places in tags of its own
_YCBCR = 6  # two of its planes may have fewer pixels
_SEPARATE = 2  # each plane has strips of its own


def check_layout(tags: Mapping[int, Any], length: int, where: str) -> None:
    """Raise DataError unless all strips or tiles of the picture lie inside the file of `length`
    bytes. `tags`: Pillow's tags of the first page. Raises ValueError for an impossible size."""
    compression = _one(tags, _COMPRESSION, _UNCOMPRESSED)
    if compression == _OLD_JPEG:
        return
    tiled = _TILES[0] in tags
    word, (places_tag, sizes_tag) = ("tile", _TILES) if tiled else ("strip", _STRIPS)
    rows_N, width = _pieces(tags, tiled)
    places, sizes = _all(tags, places_tag), _all(tags, sizes_tag)
    if len(rows_N) == 1 and len(places) and not sizes[:1].any():
        sizes = length - places  # as libtiff computes it for a picture of one strip
    found = min(len(places), len(sizes))
    if found < len(rows_N):
        raise DataError(
            f"{where}: damaged TIFF image: its header has places and sizes of "
            f"{counted(found, word)}, expected {len(rows_N)}"
        )
    places, sizes = places[: len(rows_N)], sizes[: len(rows_N)]
    needed = sizes
    if compression == _UNCOMPRESSED and _one(tags, _PHOTOMETRIC, 0) != _YCBCR:
        needed = np.where(sizes > 0, rows_N * _row_bytes(tags, width), 0)
    outside = (places < 1) | (needed < 1) | (needed > length - places)
    if outside.any():
        at = int(outside.argmax())
        raise DataError(
            f"{where}: damaged TIFF image: found {word} {at} of {needed[at]} bytes at byte "
            f"{places[at]}, but the file has {length} bytes: it was cut or its header is wrong"
        )
    if (sizes < needed).any():
        at = int((sizes < needed).argmax())
        NOTICES.note(where, SHORT, f"{word} {at} has {sizes[at]} of {needed[at]} bytes")


def _pieces(tags: Mapping[int, Any], tiled: bool) -> tuple[NDArray[np.int64], int]:
    """Return the rows (N,) of each strip or tile that the picture needs, and their width."""
    width, height = _one(tags, _WIDTH, 0), _one(tags, _HEIGHT, 0)
    rows, wide = min(_one(tags, _ROWS, height), height), width
    if tiled:
        rows, wide = _one(tags, _TILE_HEIGHT, 0), _one(tags, _TILE_WIDTH, 0)
    if min(rows, wide) < 1:
        raise ValueError(f"found strips or tiles of {rows} x {wide} pixels")
    rows_N = np.full(-(-height // rows) * -(-width // wide), rows, np.int64)
    if not tiled:
        rows_N[-1] = height - rows * (len(rows_N) - 1)
    planes = _one(tags, _SAMPLES, 1) if _one(tags, _PLANAR, 1) == _SEPARATE else 1
    return np.tile(rows_N, planes), wide


def _row_bytes(tags: Mapping[int, Any], width: int) -> int:
    """Return the bytes of a row of a strip or tile."""
    planes = 1 if _one(tags, _PLANAR, 1) == _SEPARATE else _one(tags, _SAMPLES, 1)
    return (width * planes * _one(tags, _BITS, 1) + 7) // 8


def _one(tags: Mapping[int, Any], tag: int, default: int) -> int:
    """Return the first number of a tag."""
    return int(next(iter(_all(tags, tag)), default))


def _all(tags: Mapping[int, Any], tag: int) -> NDArray[np.int64]:
    """Return the numbers (N,) of a tag, none if the file does not have it."""
    return np.array(tags.get(tag, ()), np.int64).reshape(-1)
