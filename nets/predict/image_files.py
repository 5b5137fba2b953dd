"""Image files: found by name, decoded as the net's data were, and resized as Caffe's classify
does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding import decode
from nets.data.decoding.encoded import read_file
from nets.data.pictures.resizing import resized
from nets.data.sources.class_folders import SUFFIXES, images_below
from nets.data.sources.passed_over import PassedOver
from nets.errors import DataError
from nets.layers.base import Shape
from nets.regular import is_folder


def named(paths: Iterable[str | Path], told: Callable[[str], None]) -> Iterator[Path]:
    """Yield the named files and, for each folder, the images in it and below, in the order of their
    names. A folder without images is yielded itself; reading it gives the error. `told` gets a line
    about the files and folders that were passed over in a folder."""
    for path in map(Path, paths):
        if not is_folder(path):
            yield path
            continue
        passed = PassedOver(path)
        some = False
        for file in images_below(path, passed):
            some = True
            yield file
        if not some:
            yield path
        for line in passed.told:
            told(line)


def image(path: Path, shape: Shape, order: str, orientation: str = "exif") -> NDArray[np.uint8]:
    """Return the image in a file as (C, H, W) bytes of `shape`, with planes in `order`, turned as
    `orientation` says. Raises DataError if the file cannot be used."""
    if is_folder(path):
        raise DataError(f"{path}: found a folder without images ({', '.join(SUFFIXES)})")
    color = "gray" if order == "gray" else "color"
    size = shape[1], shape[2]
    found = decode.image(read_file(path), str(path), color, orientation, size)
    return fitted(found[::-1] if order == "rgb" else found, shape)


def fitted(image_CHW: NDArray[Any], shape: Shape) -> NDArray[Any]:
    """Return the image, resized to (H, W) of `shape`. Raises DataError if it has another number of
    channels."""
    if image_CHW.ndim != 3 or len(image_CHW) != shape[0]:
        raise DataError(f"found an image of shape {image_CHW.shape}, expected ({shape[0]}, H, W)")
    return resized(image_CHW, *shape[1:])
