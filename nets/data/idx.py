"""IDX files, MNIST's format: images (N, H, W) or (N, C, H, W) and labels (N,) of bytes, plain or gzipped.

Header and length are checked; memory grows with what is read, not with what a header promises.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from nets.errors import DataError

UNSIGNED_BYTE = 0x08
CHUNK = 1 << 20  # bytes read at a time: a header that promises too much costs no memory


def read(*, base_dir: Path, images: str, labels: str) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return images (N, C, H, W) uint8, labels (N,) and the number of classes (largest label + 1)."""
    pixels = read_idx(base_dir / images, axes=(3, 4))
    numbers = read_idx(base_dir / labels, axes=(1,))
    if len(pixels) != len(numbers):
        raise DataError(f"{images} has {len(pixels)} images but {labels} has {len(numbers)} labels, expected as many")
    if not pixels.size:
        raise DataError(f"{images}: found no pixels (shape {pixels.shape}), expected at least one image")
    shaped = pixels[:, None] if pixels.ndim == 3 else pixels
    return shaped, numbers.astype(np.int64), int(numbers.max()) + 1


def read_idx(path: Path, axes: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the array in `path`, which must have one of `axes` axes; DataError names file, found and expected."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with cast(IO[bytes], gzip.open(path, "rb") if zipped else path.open("rb")) as file:
            return _read(file, path.name, axes)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name}: damaged gzip file: {error}") from None
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read: {error.strerror or error}") from None


def _read(file: IO[bytes], name: str, axes: tuple[int, ...]) -> NDArray[np.uint8]:
    magic = _header(file, name, 4, "magic number")
    if magic[:2] != b"\0\0" or magic[2] != UNSIGNED_BYTE or magic[3] not in axes:
        expected = " or ".join(f"0000 08 {count:02x}" for count in axes)
        found = f"{magic[:2].hex()} {magic[2]:02x} {magic[3]:02x}"
        raise DataError(f"{name}: found magic number {found}, expected {expected}")
    shape = struct.unpack(f">{magic[3]}I", _header(file, name, 4 * magic[3], "sizes"))
    count = math.prod(shape)
    data = bytearray()
    while len(data) <= count and (chunk := file.read(min(CHUNK, count + 1 - len(data)))):
        data += chunk
    if len(data) != count:
        found = "more" if len(data) > count else str(len(data))
        raise DataError(f"{name}: found {found} bytes of data, expected {count} for shape {shape}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _header(file: IO[bytes], name: str, count: int, what: str) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise DataError(f"{name}: the file ends in its {what}: found {len(data)} bytes, expected {count}")
    return data
