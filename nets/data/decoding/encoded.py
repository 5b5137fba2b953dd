"""Encoded pictures of a batch, and the function that decodes them to one array.

A source of pictures has a `Decoder`: `decoded`, which decodes in the thread that reads, or the
processes of `processes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding import decode
from nets.errors import DataError, SampleError
from nets.reasons import reason
from nets.regular import read_bytes

MAX_FILE = 1 << 28  # bytes of one encoded image
Shape = tuple[int, ...]  # (C, H, W)


class Picture(NamedTuple):
    """An encoded picture: the arguments of `decode.image`, and what to do if it is damaged. Without
    `data` it is the file `where`, which is read when it is decoded."""

    data: bytes | None
    where: str
    color: str
    orientation: str
    size: tuple[int, int] | None
    remedy: str = ""

    def image(self) -> NDArray[Any]:
        """Decode to (C, H, W) uint8. Raises SampleError if the picture is damaged, and DataError if
        its file cannot be read."""
        with remedied(self.remedy):
            data = read_file(Path(self.where)) if self.data is None else self.data
            try:
                return decode.image(data, self.where, self.color, self.orientation, self.size)
            except DataError as error:
                raise SampleError(error.problems) from None


@contextmanager
def remedied(remedy: str) -> Iterator[None]:
    """Let the lines of a DataError in the block end with what to do, if there is such a text."""
    try:
        yield
    except DataError as error:
        if not remedy:
            raise
        raise type(error)([f"{text}; {remedy}" for text in error.problems]) from None


# (pictures, their number, the shape (C, H, W) of each) -> images (n, C, H, W) uint8. Pictures are
# taken one by one. Raises the SampleError of the first one that is damaged or of another shape.
Decoder = Callable[[Iterable[Picture], int, Shape], NDArray[np.uint8]]


def decoded(pictures: Iterable[Picture], count: int, shape: Shape) -> NDArray[np.uint8]:
    """Decode the pictures in this thread."""
    images_NCHW = np.empty((count, *shape), np.uint8)
    for image_CHW, picture in zip(images_NCHW, pictures, strict=True):
        found_CHW = picture.image()
        check_shape(found_CHW.shape, picture.where, shape)
        image_CHW[...] = found_CHW
    return images_NCHW


def check_shape(found: tuple[int, ...], where: str, shape: Shape) -> None:
    """Raise SampleError unless the image `where` has the shape of the first one."""
    if found == shape:
        return
    advice = ["give new_height and new_width"] * (found[1:] != shape[1:])
    if {found[0], shape[0]} == {1, 3}:
        advice.append('give color = "color" or "gray"')
    elif found[0] != shape[0]:
        advice = ["convert it"]
    raise SampleError(
        f"{where}: found an image of shape {found}, expected {shape} like the first: "
        f"{', and '.join(advice)}"
    )


def read_file(path: Path) -> bytes:
    """Return the bytes of an image file. Raises DataError if it cannot be read or is larger than
    any image."""
    try:
        return read_bytes(path, MAX_FILE)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason(error)}") from None
