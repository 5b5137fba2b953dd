"""IDX files, the format of MNIST: images (N, H, W) or (N, C, H, W) and labels (N,) of bytes, plain
or gzipped.

Header and length are checked. Memory grows with the bytes read, not with the size that a header
gives.
"""

import math
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data.sources.located import located
from nets.data.sources.zipped import opened
from nets.errors import DataError

UNSIGNED_BYTE = 0x08
CHUNK = 1 << 20  # bytes read at a time
# EMNIST has 547 million; larger sets can use lmdb or hdf5, which do not hold all data in memory
MAX_BYTES = 640 << 20


def read(
    *, base_dir: Path, images: str, labels: str
) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return images (N, C, H, W) uint8, labels (N,), and the number of classes (largest label +
    1)."""
    pictures, numbered = located(base_dir, images), located(base_dir, labels)
    pixels = read_idx(pictures, axes=(3, 4))
    numbers = read_idx(numbered, axes=(1,))
    if len(pixels) != len(numbers):
        raise DataError(
            f"{pictures} has {counted(len(pixels), 'image')} but {numbered} has "
            f"{counted(len(numbers), 'label')}, expected the same number"
        )
    if not pixels.size:
        raise DataError(
            f"{pictures}: found no pixels (shape {pixels.shape}), expected at least one image"
        )
    shaped = pixels[:, None] if pixels.ndim == 3 else pixels
    return shaped, numbers.astype(np.int64), int(numbers.max()) + 1


def read_idx(path: Path, axes: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the array in `path`. Raises DataError if its number of axes is not in `axes`, or if
    the file is damaged."""
    with opened(path) as (file, size):
        return _read(file, size, str(path), axes)


def _read(file: IO[bytes], size: int | None, name: str, axes: tuple[int, ...]) -> NDArray[np.uint8]:
    magic = _header(file, name, 4, "magic number")
    if magic[:2] != b"\0\0" or magic[2] != UNSIGNED_BYTE or magic[3] not in axes:
        expected = " or ".join(f"0000 08 {count:02x}" for count in axes)
        found = f"{magic[:2].hex()} {magic[2]:02x} {magic[3]:02x}"
        raise DataError(f"{name}: found magic number {found}, expected {expected}")
    shape = struct.unpack(f">{magic[3]}I", _header(file, name, 4 * magic[3], "sizes"))
    count = math.prod(shape)
    if math.prod(size or 1 for size in shape) > MAX_BYTES:  # numpy limits empty arrays, too
        raise DataError(
            f"{name}: found shape {shape}, expected at most {MAX_BYTES} bytes, "
            "which are held in memory"
        )
    rest = None if size is None else size - 4 - 4 * magic[3]
    if rest is None:
        data = np.empty(count, np.uint8)  # the memory is taken when it is filled
        rest = _fill(file, data)
    else:
        data = np.frombuffer(file.read(count) if rest == count else b"", np.uint8)
    if rest != count:
        found = "more" if rest > count else str(rest)
        raise DataError(f"{name}: found {found} bytes of data, expected {count} for shape {shape}")
    return data.reshape(shape)


def _fill(file: IO[bytes], data: NDArray[np.uint8]) -> int:
    """Read into `data` and return the number of bytes that were read, plus one if the file has
    more."""
    done = 0
    while done < len(data) and (chunk := file.read(min(CHUNK, len(data) - done))):
        data[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
        done += len(chunk)
    return done + len(file.read(1))


def _header(file: IO[bytes], name: str, count: int, what: str) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise DataError(
            f"{name}: the file ends in its {what}: found {len(data)} bytes, expected {count}"
        )
    return data
