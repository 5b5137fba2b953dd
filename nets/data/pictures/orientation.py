"""The orientation that a camera writes into its photographs: EXIF's tag 0x0112.

1 is upright. 2, 4, 5 and 7 are mirrored. 3, 6 and 8 are turned by 180, 90 and 270 degrees.
"""

from __future__ import annotations

import struct
from typing import Any

from numpy.typing import NDArray

from nets.data.pictures.segments import APP0, APP1, COMMENT, segments

UPRIGHT = 1
SIDEWAYS = 5  # from here on, rows of the file are columns of the picture
_ORIENTATION = 0x0112
# the fields of EXIF by the order of their bytes: a place, a count, an entry's tag and its value
_FIELDS = {
    mark: tuple(struct.Struct(f"{order}{field}").unpack_from for field in ("I", "H", "H6xH2x"))
    for mark, order in ((b"II", "<"), (b"MM", ">"))
}
_ENTRY = 12  # bytes
_EXIF = b"Exif\0\0"


def of_jpeg(data: bytes) -> int:
    """Return the orientation of a JPEG file, UPRIGHT if it has none.

    EXIF comes before the tables of a file. The tables are not searched, which would take as long as
    1 % of the decoding of a picture of 256 x 256.
    """
    for marker, at, end in segments(data):
        if not APP0 <= marker <= COMMENT:
            break
        if marker == APP1 and data.startswith(_EXIF, at + 4):
            return of_exif(data[at + 4 + len(_EXIF) : end])
    return UPRIGHT


def of_exif(exif: bytes) -> int:
    """Return the orientation in a block of EXIF, UPRIGHT if it has none or is damaged. OpenCV also
    ignores damage there."""
    exif = exif.removeprefix(_EXIF)
    if exif[:2] not in _FIELDS:
        return UPRIGHT
    place, number, entry = _FIELDS[exif[:2]]
    try:
        (first,) = place(exif, 4)
        (count,) = number(exif, first)
        for at in range(first + 2, first + 2 + _ENTRY * count, _ENTRY):
            tag, found = entry(exif, at)
            if tag == _ORIENTATION:
                return found if UPRIGHT <= found <= 8 else UPRIGHT
    except struct.error:  # the block was cut
        return UPRIGHT
    return UPRIGHT


def turned(pixels_HWC: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return a view of the pixels as the photographer saw them."""
    if orientation >= SIDEWAYS:
        pixels_HWC = pixels_HWC.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels_HWC = pixels_HWC[::-1]
    if orientation in (2, 3, 6, 7):
        pixels_HWC = pixels_HWC[:, ::-1]
    return pixels_HWC
