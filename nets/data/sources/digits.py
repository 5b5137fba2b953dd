"""The handwritten digits that ship with the package, enlarged to MNIST's 28 x 28."""

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import DataError

FILE = Path(__file__).with_name("digits.csv.gz")
SIZE = 28  # as in MNIST, whose glyphs of 20 x 20 lie in the middle of 28 x 28
GLYPH = 20
HIGHEST = 16  # the largest pixel value in the file


def read(*, base_dir: Path, split: str = "train") -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return images (N, 1, 28, 28) uint8, labels (N,), and 10, the number of classes. N is 1438 for
    "train" and 359 for "test".

    Every fifth image (index % 5 == 4) is for testing. The arrays are read-only, because all callers
    in a process get the same ones.
    """
    if split not in ("train", "test"):
        raise DataError(f"digits: split: found '{split}', expected 'train' or 'test'")
    images, labels = _split(split)
    return images, labels, 10


@cache
def _split(split: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return one split. The result is cached: reading takes 10 ms, and a plan reads several
    times."""
    rows = _rows()
    chosen = rows[(np.arange(len(rows)) % 5 == 4) == (split == "test")]
    pixels = chosen[:, :64].reshape(-1, 8, 8).astype(np.float64) * (255 / HIGHEST)
    images = np.zeros((len(chosen), 1, SIZE, SIZE), np.uint8)
    labels = chosen[:, 64].copy()
    edge = (SIZE - GLYPH) // 2
    images[:, 0, edge : edge + GLYPH, edge : edge + GLYPH] = np.rint(enlarge(pixels, GLYPH))
    images.flags.writeable = labels.flags.writeable = False
    return images, labels


@cache
def _rows() -> NDArray[np.int64]:
    with gzip.open(FILE, "rt", encoding="ascii") as lines:
        return np.loadtxt(lines, delimiter=",", dtype=np.int64)


def enlarge(images_NHW: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Resize (N, H, H) to (N, size, size) bilinearly. Pixel centres keep their relative places, and
    edge pixels are repeated."""
    old = images_NHW.shape[1]
    weights = np.zeros((size, old))
    places = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
    low = np.minimum(places.astype(int), old - 2)
    weights[np.arange(size), low] = 1 - (places - low)
    weights[np.arange(size), low + 1] = places - low
    return np.asarray(weights @ images_NHW @ weights.T)
