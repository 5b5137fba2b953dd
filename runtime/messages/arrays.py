"""Arrays of a message that is sent: what the header says of each (see `wire`), and the frame that
is its memory. `received_arrays` is the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from runtime.errors import MessageError
from runtime.messages.message import Array, Message

MAX_DIMENSIONS = 8
MAX_ARRAYS = 1024
DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}  # asking a dtype for its name takes 3 us

Frame = bytes | memoryview
# an array -> its offset in shared memory, None if it must travel
Lend = Callable[[Array], int | None]


def nowhere(array: Array) -> int | None:
    """The `Lend` of a process that shares no memory."""
    return None


def encode_arrays(body: Message, lend: Lend, descriptors: list[Any], frames: list[Frame]) -> None:
    """Add what the header says of a message's arrays, and the frames of those that travel."""
    arrays = 0
    for name, several in body.array_fields:
        value = getattr(body, name)
        if several:
            descriptors.append(len(value))
        for array in value if several else (value,):
            descriptor = _descriptor(body, name, array)
            offset = lend(array)
            if offset is None:
                frames.append(_frame(array, descriptor))
            else:
                descriptor += (
                    [offset] if array.flags.c_contiguous else [offset, list(array.strides)]
                )
            descriptors.append(descriptor)
            arrays += 1
    if arrays > MAX_ARRAYS:
        raise MessageError("too_large", f"{body.kind} has {arrays} arrays, at most {MAX_ARRAYS}")


def _descriptor(body: Message, name: str, array: Array) -> list[Any]:
    dtype = _NAMES.get(array.dtype) or array.dtype.name
    if dtype not in DTYPES:
        raise MessageError(
            "bad_type", (f"{body.kind}.{name} has dtype {array.dtype}, which no message carries")
        )
    if array.ndim > MAX_DIMENSIONS:
        raise MessageError(
            "bad_shape",
            (f"{body.kind}.{name} has {array.ndim} dimensions, at most {MAX_DIMENSIONS}"),
        )
    return [dtype, list(array.shape)]


def _frame(array: Array, descriptor: list[Any]) -> memoryview:
    """The array's bytes, in the order in which they lie; the descriptor says which if it is not the
    dimensions'."""
    if not array.flags.c_contiguous:
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        array = array.transpose(axes)
        descriptor.append(axes)
    # fills gaps, and turns foreign byte order into ours
    whole = np.ascontiguousarray(array, DTYPES[descriptor[0]])
    return whole.reshape(-1).view(np.uint8).data
