"""CIFAR-10's binary version: records of one label byte and 3072 bytes, the red, green and blue plane of 32 x 32."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from nets.errors import DataError

SHAPE, RECORD, CLASSES = (3, 32, 32), 3073, 10
MAX_BYTES = RECORD * 100_000  # ten times a published file: a gzip bomb stops here


def read(*, base_dir: Path, files: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return images (N, 3, 32, 32) uint8 (RGB), labels (N,), 10 classes, of all `files` in order, plain or gzipped."""
    if not files:
        raise DataError("cifar10: files: found none, expected at least one")
    records = np.concatenate([_records(base_dir / file) for file in files])
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0].astype(np.int64), CLASSES


def _records(path: Path) -> NDArray[np.uint8]:
    data = _bytes(path)
    if not data or len(data) % RECORD:
        raise DataError(f"{path.name}: found {len(data)} bytes, expected a multiple of {RECORD}, one record an image")
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    wrong = np.flatnonzero(records[:, 0] >= CLASSES)
    if len(wrong):
        found = records[wrong[0], 0]
        raise DataError(f"{path.name}: image {wrong[0]}: found label {found}, expected 0 to {CLASSES - 1}")
    return records


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with cast(IO[bytes], gzip.open(path, "rb") if zipped else path.open("rb")) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name}: damaged gzip file: {error}") from None
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise DataError(f"{path.name}: found more than {MAX_BYTES} bytes, expected a CIFAR-10 batch")
    return data
