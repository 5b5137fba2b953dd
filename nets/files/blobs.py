"""Conversion between Caffe's BlobProto and NumPy arrays, with the older shapes of four numbers, and
a test whether two shapes mean the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.schema import caffe_pb2 as caffe

OLD_KEYS = ("num", "channels", "height", "width")
MAX_AXES = 32  # Caffe's kMaxBlobAxes
_DATA_TAG = b"\x2a"  # fields 5 and 8, packed
_DOUBLE_TAG = b"\x42"


def to_array(blob: caffe.BlobProto, what: str) -> NDArray[Any]:
    """Return the blob's data, float32 or float64, in the blob's shape. Raises NetError if data and
    shape do not match."""
    shape = shape_of(blob)
    name, dtype = ("double_data", "<f8") if blob.double_data else ("data", "<f4")
    count = len(getattr(blob, name))
    if any(size < 0 for size in shape) or len(shape) > MAX_AXES or math.prod(shape) != count:
        raise NetError(f"{what}: found {count} numbers for shape {shape}")
    only = caffe.BlobProto()
    only.CopyFrom(blob)
    for field, _ in blob.ListFields():
        if field.name != name:
            only.ClearField(field.name)
    # The bytes are a tag, a length and the numbers: no number becomes a Python object.
    raw = only.SerializeToString()
    size = count * np.dtype(dtype).itemsize
    array = np.frombuffer(raw, dtype, count, offset=len(raw) - size)
    return array.astype(dtype[1:], copy=True).reshape(shape)


def from_array(array: NDArray[Any]) -> caffe.BlobProto:
    """Return a blob with today's shape. float64 stays double; every other dtype becomes float."""
    double = array.dtype == np.float64
    raw = np.ascontiguousarray(array, "<f8" if double else "<f4").tobytes()
    blob = caffe.BlobProto.FromString(
        (_DOUBLE_TAG if double else _DATA_TAG) + _varint(len(raw)) + raw
    )
    blob.shape.dim.extend(array.shape)
    return blob


def shape_of(blob: caffe.BlobProto) -> tuple[int, ...]:
    """Return the blob's shape: `shape`, or the four numbers of older blobs."""
    if any(blob.HasField(key) for key in OLD_KEYS):
        return tuple(int(getattr(blob, key)) for key in OLD_KEYS)
    return tuple(int(size) for size in blob.shape.dim)


def same_shape(found: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether shape `found` in a file fits shape `expected`: they are equal, or `found` has four
    axes and is `expected` after ones (Caffe's Blob::ShapeEquals for blobs of the older format)."""
    if tuple(found) == tuple(expected):
        return True
    padded = (1,) * (4 - len(expected)) + tuple(expected)
    return len(found) == 4 and len(padded) == 4 and tuple(found) == padded


def _varint(value: int) -> bytes:
    """Return protobuf's length prefix: seven bits per byte, the lowest first."""
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
