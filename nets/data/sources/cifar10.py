"""CIFAR-10's binary format: records of one label byte and 3072 bytes, which are the red, green and
blue planes of 32 x 32 pixels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.sources.located import located
from nets.data.sources.zipped import opened
from nets.errors import DataError

SHAPE = (3, 32, 32)
RECORD = 3073
CLASSES = 10
# the class names as published
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MAX_BYTES = RECORD * 60_000  # six times a published file; the limit stops a gzip bomb


def read(*, base_dir: Path, files: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return images (N, 3, 32, 32) uint8 (RGB), labels (N,), and 10, the number of classes. The
    `files`, plain or gzipped, are read in order."""
    if not files:
        raise DataError("cifar10: files: found none, expected at least one")
    records = np.concatenate([_records(located(base_dir, file)) for file in files])
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0].astype(np.int64), CLASSES


def _records(path: Path) -> NDArray[np.uint8]:
    data = _bytes(path)
    if not data or len(data) % RECORD:
        raise DataError(
            f"{path}: found {len(data)} bytes, expected a multiple of "
            f"{RECORD}, one record per image"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    wrong = np.flatnonzero(records[:, 0] >= CLASSES)
    if len(wrong):
        found = records[wrong[0], 0]
        raise DataError(
            f"{path}: image {wrong[0]}: found label {found}, expected 0 to {CLASSES - 1}"
        )
    return records


def _bytes(path: Path) -> bytes:
    with opened(path) as (file, _):
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise DataError(f"{path}: found more than {MAX_BYTES} bytes, expected a CIFAR-10 batch")
    return data
