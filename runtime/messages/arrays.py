"""Arrays of a message that is sent: the descriptor of each array in the header (see `wire`), and
the frame that holds its bytes. `received_arrays` is the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from runtime.errors import MessageError
from runtime.messages.device_arrays import HOST, SharedArray, is_shared
from runtime.messages.header_checks import no_array
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
_NAMES = {dtype: name for name, dtype in DTYPES.items()}  # looking up a dtype's name takes 3 us

Frame = bytes | memoryview | SharedArray  # the last only within a process
# an array -> its offset in shared memory; None: the array must travel in a frame
Lend = Callable[[Array], int | None]


def nowhere(array: Array) -> int | None:
    """Lend no array: the `Lend` of a process that shares no memory."""
    return None


def encode_arrays(body: Message, lend: Lend, descriptors: list[Any], frames: list[Frame]) -> None:
    """Append the descriptors of a message's arrays, and the frames of the arrays that travel.
    Raises MessageError if no message may carry an array of such a dtype or rank, or so many."""
    arrays = 0
    for name, several in body.array_fields:
        value = getattr(body, name)
        if several and not isinstance(value, tuple | list):
            raise no_array(body, name, value, "a tuple of arrays")
        if several:
            descriptors.append(len(value))
        for array in value if several else (value,):
            descriptor = _descriptor(body, name, array)
            offset = lend(array)
            if offset is None and is_shared(array):
                frames.append(array)  # by reference, within a process
            elif offset is None:
                frames.append(_frame(array, descriptor))
            elif is_shared(array) and array.place is not None:
                descriptor += [offset, list(array.array.strides), array.place[1]]
            else:
                descriptor += (
                    [offset] if array.flags.c_contiguous else [offset, list(array.strides)]
                )
            descriptors.append(descriptor)
            arrays += 1
    if arrays > MAX_ARRAYS:
        raise MessageError("too_large", f"{body.kind} has {arrays} arrays, at most {MAX_ARRAYS}")


def _descriptor(body: Message, name: str, array: Any) -> list[Any]:
    carried: bool = isinstance(array, HOST) or is_shared(array)
    if not carried:
        raise no_array(body, name, array, "a NumPy array")
    dtype = _NAMES.get(array.dtype) or array.dtype.name
    if dtype not in DTYPES:
        raise MessageError(
            "bad_type",
            (f"{type(body).__name__}.{name} has dtype {array.dtype}, which no message carries"),
        )
    if array.ndim > MAX_DIMENSIONS:
        raise MessageError(
            "bad_shape",
            (f"{type(body).__name__}.{name} has {array.ndim} dimensions, at most {MAX_DIMENSIONS}"),
        )
    return [dtype, list(array.shape)]


def _frame(array: Array, descriptor: list[Any]) -> memoryview:
    """Return the array's bytes in memory order. If that is not the order of the dimensions, append
    the order of the axes to the descriptor."""
    if not array.flags.c_contiguous:
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        array = array.transpose(axes)
        descriptor.append(axes)
    # closes gaps between elements, and converts a foreign byte order
    whole = np.ascontiguousarray(array, DTYPES[descriptor[0]])
    return whole.reshape(-1).view(np.uint8).data
