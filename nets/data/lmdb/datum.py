"""Conversion between a Datum (an image and its label, as Caffe's databases store them) and an
array.

`decode` decodes encoded images.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from nets.data.decoding import decode
from nets.data.pictures.resizing import resized
from nets.errors import DataError
from nets.schema import caffe_pb2 as caffe


def parse(record: bytes, where: str) -> caffe.Datum:
    """Return the Datum in `record`. Raises DataError, which names `where`, for a damaged record."""
    try:
        return caffe.Datum.FromString(record)
    except DecodeError:
        raise DataError(f"{where}: damaged record, expected a Datum") from None


def to_image(
    datum: caffe.Datum,
    where: str,
    color: str = "stored",
    orientation: str = "exif",
    size: tuple[int, int] | None = None,
) -> NDArray[Any]:
    """Return the image (C, H, W): uint8, or float32 for `float_data`. An encoded image is decoded
    to BGR or grey, and turned as `orientation` says (`decode.image`).

    `color`: "stored" keeps the number of channels, "color" makes three, "gray" makes one (Caffe's
    force_color and force_gray). `size`: (height, width) to resize to, or None.
    """
    if datum.encoded:
        return decode.image(datum.data, where, color, orientation, size)
    shape = (datum.channels, datum.height, datum.width)
    flat = (
        np.frombuffer(datum.data, np.uint8)
        if datum.data
        else np.array(datum.float_data, np.float32)
    )
    if min(shape) < 1 or len(flat) != shape[0] * shape[1] * shape[2]:
        raise DataError(f"{where}: found {len(flat)} values for an image of shape {shape}")
    found = decode.recolored(flat.reshape(shape), where, color)
    return resized(found, *size) if size else found


def from_image(image_CHW: NDArray[Any], label: int) -> caffe.Datum:
    """Return the Datum of a (C, H, W) image: bytes for uint8, floats otherwise."""
    channels, height, width = image_CHW.shape
    datum = caffe.Datum(channels=channels, height=height, width=width, label=label)
    if image_CHW.dtype == np.uint8:
        datum.data = image_CHW.tobytes()
    else:
        datum.float_data.extend(image_CHW.astype(np.float32).ravel().tolist())
    return datum
