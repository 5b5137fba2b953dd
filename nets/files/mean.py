"""Reader and writer of Caffe's mean image, a BlobProto in a `.binaryproto` file.

`data.transform` subtracts it and `tools.convert` computes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import DataError, NetError
from nets.files.binary import read_message, write_message
from nets.files.blobs import from_array, to_array
from nets.schema import caffe_pb2 as caffe


def read_mean(path: Path) -> NDArray[np.float32]:
    """Return the mean image (C, H, W). Raises DataError if the file is damaged or is not one image
    of finite numbers."""
    blob = read_message(path, caffe.BlobProto, "a mean image", DataError)
    try:
        array = to_array(blob, str(path))
    except NetError as error:
        raise DataError(error.problems) from None
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim != 3 or not array.size:
        raise DataError(f"{path}: found shape {array.shape}, expected (C, H, W) or (1, C, H, W)")
    # a double too large for float32 becomes infinite and is refused
    with np.errstate(over="ignore"):
        mean = array.astype(np.float32)
    if not np.isfinite(mean).all():
        raise DataError(f"{path}: found numbers that are not finite, expected a mean image")
    return mean


def write_mean(path: Path, mean_CHW: NDArray[Any]) -> None:
    """Write a mean image (C, H, W) as Caffe's compute_image_mean does: a blob of shape (1, C, H, W)
    in the older form."""
    channels, height, width = mean_CHW.shape
    blob = from_array(np.asarray(mean_CHW, np.float32))
    blob.ClearField("shape")
    blob.num = 1
    blob.channels = channels
    blob.height = height
    blob.width = width
    write_message(path, blob)
