"""PBM, PGM and PPM: bits, grey and colour in plain text or bytes.

OpenCV's rules, since Caffe reads so: numbers of two bytes give their upper byte whatever the
largest number is, single bytes are taken as they are, and text is scaled to 255.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nets.data.pictures.kinds import check_size
from nets.data.pictures.notices import NOTICES
from nets.errors import DataError

SCALED = "Netpbm picture whose largest number fills neither 8 nor 16 bits, read as OpenCV does"
_NUMBER = re.compile(rb"(?:\s|#[^\r\n]*[\r\n])*(\d{1,9})")
_COMMENT = re.compile(rb"#[^\r\n]*")
_SPACE = re.compile(rb"\s")
_AT_A_TIME = 1 << 16  # bytes of text
_WHITE_SPACE = b" \t\n\r\v\f"
_NOT_NUMBERS = "damaged or not an image: expected numbers only"
_PLAIN = 3  # P1 to P3 are text
_BITS = (1, 4)
_COLOUR = (3, 6)


def read(data: bytes, where: str) -> NDArray[np.uint8]:
    """Return the pixels, (H, W, 3) BGR or (H, W, 1) grey. Raises DataError for a damaged file."""
    kind = data[1] - ord("0")
    count = 2 if kind in _BITS else 3
    header = []
    at = 2
    for _ in range(count):
        found = _NUMBER.match(data, at)
        if found is None:
            raise DataError(f"{where}: damaged or not an image: expected {count} numbers first")
        header.append(int(found[1]))
        at = found.end()
    width, height, *rest = header
    most = rest[0] if rest else 1
    check_size(height, width, where)
    if not 0 < most < 1 << 16:
        raise DataError(f"{where}: found {most} as the largest number, expected 1 to 65535")
    if rest and most not in (255, 65535):
        NOTICES.note(where, SCALED, f"it is {most}")
    planes = 3 if kind in _COLOUR else 1
    shape = (height, width, planes)
    if kind == 4:
        pixels = _packed(data[at + 1 :], height, width, where)
    elif kind in _BITS:
        pixels = _digits(data[at + 1 :], shape, where)
    elif kind <= _PLAIN:
        pixels = _text(data[at + 1 :], most, shape, where)
    else:
        pixels = _bytes(data[at + 1 :], most, shape, where)
    return pixels[:, :, ::-1]


def _packed(body: bytes, height: int, width: int, where: str) -> NDArray[np.uint8]:
    """Return 0 for each bit that is 1, and 255 for the others. A row begins with a new byte."""
    row = (width + 7) // 8
    _check_length(len(body), row * height, where)
    rows = np.frombuffer(body, np.uint8, row * height).reshape(height, row)
    black = np.unpackbits(rows, axis=1)[:, :width, None]
    return (black - np.uint8(1)).astype(np.uint8)


def _digits(body: bytes, shape: tuple[int, int, int], where: str) -> NDArray[np.uint8]:
    """Return 255 for each digit 0, and 0 for the others. White space between digits is optional."""
    count = shape[0] * shape[1] * shape[2]
    digits = _COMMENT.sub(b"", body).translate(None, _WHITE_SPACE)[:count]
    _check_length(len(digits), count, where)
    if not digits.isdigit():
        raise DataError(f"{where}: {_NOT_NUMBERS}")
    zero = np.frombuffer(digits, np.uint8).reshape(shape) == ord("0")
    return np.where(zero, 255, 0).astype(np.uint8)


def _text(body: bytes, most: int, shape: tuple[int, int, int], where: str) -> NDArray[np.uint8]:
    pixels = np.empty(shape[0] * shape[1] * shape[2], np.uint8)
    filled = 0
    for words in _words(_COMMENT.sub(b"", body)):
        try:
            numbers = np.array([int(word) for word in words[: len(pixels) - filled]], np.int64)
        except (ValueError, OverflowError):
            raise DataError(f"{where}: {_NOT_NUMBERS}") from None
        numbers = numbers.clip(0, most)
        numbers = numbers >> 8 if most > 255 else numbers * 255 // most
        pixels[filled : filled + len(numbers)] = numbers
        filled += len(numbers)
        if filled == len(pixels):
            return pixels.reshape(shape)
    _check_length(filled, len(pixels), where)
    return pixels.reshape(shape)


def _words(text: bytes) -> Iterator[list[bytes]]:
    """Yield the words of a text, some at a time: a list of all would take 20 times the text's
    memory."""
    at = 0
    while at < len(text):
        space = _SPACE.search(text, at + _AT_A_TIME)
        end = space.start() if space else len(text)
        yield text[at:end].split()
        at = end


def _bytes(body: bytes, most: int, shape: tuple[int, int, int], where: str) -> NDArray[np.uint8]:
    count = shape[0] * shape[1] * shape[2]
    size = 2 if most > 255 else 1
    _check_length(len(body), count * size, where)
    pixels = np.frombuffer(body, np.uint8, count * size)
    return pixels[::size].reshape(shape)  # of two bytes, the first is the upper one


def _check_length(found: int, expected: int, where: str) -> None:
    if found < expected:
        raise DataError(
            f"{where}: damaged or not an image: found {found} of {expected} bytes or numbers: the "
            "file was cut"
        )
