"""The segments of a JPEG file before its first scan, such as the one with EXIF."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

BEGIN = b"\xff\xd8"
START_OF_SCAN = 0xDA
APP0 = 0xE0
APP1 = 0xE1
APP14 = 0xEE
COMMENT = 0xFE
_HEAD = struct.Struct(">BBH")  # 0xFF, the marker, the size of its segment
# A marker that a segment follows. 0xFF before it is a fill byte; 0x00, 0x01 and 0xD0 to 0xD8 have
# no segment.
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the marker of each segment, its place in the file, and its end. The last one is the
    first scan, with the rest of the file.

    Bytes between segments are skipped, as libjpeg does.
    """
    at = len(BEGIN)
    while (found := _MARKER.search(data, at)) and found.start() + _HEAD.size <= len(data):
        at = found.start()
        _, marker, size = _HEAD.unpack_from(data, at)
        if marker == START_OF_SCAN:
            yield marker, at, len(data)
            return
        yield marker, at, at + 2 + size
        at += 2 + size


def mended(data: bytes, transform: int) -> bytes:
    """Return the file without the faults before its first scan that libjpeg only warns of: bytes
    between segments, an unknown version of JFIF, and an unknown number of Adobe's colour transform,
    in whose place libjpeg takes `transform`."""
    parts = [BEGIN]
    for marker, at, end in segments(data):
        part = data[at:end]
        if marker == APP0 and part[4:9] == b"JFIF\0" and len(part) > 10:
            part = part[:9] + b"\1\1" + part[11:]
        if marker == APP14 and part[4:9] == b"Adobe" and len(part) > 15 and part[15] > 2:
            part = part[:15] + bytes([transform]) + part[16:]
        parts.append(part)
    return b"".join(parts)
