"""Arrays of a message that was received: read-only views of its frames or of the sender's memory.

No part of the header is trusted: every mistake raises MessageError.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from runtime.device_place import DevicePlace
from runtime.errors import MessageError
from runtime.messages.arrays import DTYPES, MAX_ARRAYS, MAX_DIMENSIONS
from runtime.messages.device_arrays import is_shared
from runtime.messages.message import Array, Message
from runtime.messages.nesting import shown

_INTEGERS = {int}


class Borrow(Protocol):
    """The sender's memory, read in place. Raises MessageError for bytes outside of it."""

    def __call__(self, offset: int, size: int) -> Array:
        """Return a read-only view of these bytes in host memory."""
        ...

    def on_device(self, place: DevicePlace) -> Any:
        """Return the array at this place, on the device of this process."""
        ...


class _Nothing:
    """The memory of a sender that shares none."""

    def __call__(self, offset: int, size: int) -> Array:
        raise MessageError(
            "bad_shape",
            (f"{size} bytes at {offset} of shared memory, but none is shared with the sender"),
        )

    def on_device(self, place: DevicePlace) -> Any:
        return self(place.offset, place.size)


nothing = _Nothing()


def decode_arrays(
    kind: type[Message], descriptors: list[Any], frames: Sequence[Any], borrow: Borrow
) -> dict[str, Any]:
    """Return the array fields of a received message, by field name.

    Nothing in the message is trusted: every mistake raises MessageError.
    """
    if len(frames) > MAX_ARRAYS:
        raise MessageError(
            "bad_header", (f"{kind.kind}: {len(frames)} array frames, at most {MAX_ARRAYS}")
        )
    todo = iter(descriptors)
    supply = iter(frames)
    found: dict[str, Any] = {}
    try:
        for name, several in kind.array_fields:
            if not several:
                found[name] = _array(kind, name, next(todo), supply, borrow)
                continue
            count = next(todo)
            if type(count) is not int or not 0 <= count <= len(descriptors):
                raise MessageError(
                    "bad_header",
                    (f"{kind.kind}.{name}: {shown(count)} arrays in {len(frames)} frames"),
                )
            found[name] = tuple(
                [_array(kind, name, next(todo), supply, borrow) for _ in range(count)]
            )
    except StopIteration:
        raise MessageError(
            "bad_header", (f"{kind.kind}: fewer arrays than its fields need")
        ) from None
    if next(todo, None) is not None or next(supply, None) is not None:
        raise MessageError(
            "bad_header", (f"{kind.kind}: more frames or descriptors than its fields hold")
        )
    return found


def _array(
    kind: type[Message], name: str, descriptor: Any, frames: Iterator[Any], borrow: Borrow
) -> Array:
    where = f"{kind.kind}.{name}"
    if not (type(descriptor) is list and 2 <= len(descriptor) <= 5 and type(descriptor[1]) is list):
        raise MessageError("bad_shape", f"{where}: not an array descriptor: {shown(descriptor)}")
    dtype_name, shape, *place = descriptor
    dtype = DTYPES.get(dtype_name) if type(dtype_name) is str else None
    if dtype is None:
        raise MessageError(
            "bad_type", f"{where}: dtype {shown(dtype_name)} cannot be carried by messages"
        )
    if len(shape) > MAX_DIMENSIONS or not _are_sizes(shape):
        raise MessageError("bad_shape", f"{where}: shape {shown(shape)}")
    if place and type(place[0]) is not list:
        return _borrowed(where, shape, dtype, place, borrow)
    axes = _axes(where, shape, place)
    frame = next(frames)
    if is_shared(frame):  # from an actor of this process
        return frame.array  # type: ignore[no-any-return]  # a device's array
    size = memoryview(frame).nbytes
    if math.prod(shape) * dtype.itemsize != size:
        raise MessageError(
            "bad_shape",
            (f"{where}: {dtype_name}{shape!r:.60} does not fill a frame of {size} bytes"),
        )
    try:
        array = (
            np.frombuffer(frame, dtype).reshape([shape[axis] for axis in axes])
            if size
            else np.empty(shape, dtype)
        )
    except ValueError:  # numpy has its own limit on the other dimensions of an empty array
        raise MessageError("bad_shape", f"{where}: shape {shape!r:.60}") from None
    array.flags.writeable = False
    return (
        array.transpose([axes.index(axis) for axis in range(len(axes))])
        if place and size
        else array
    )


def _are_sizes(numbers: list[Any]) -> bool:
    """Return whether these are all integers that are not negative."""
    return not numbers or (set(map(type, numbers)) == _INTEGERS and min(numbers) >= 0)


def _axes(where: str, shape: list[int], place: list[Any]) -> list[int]:
    """Return the axes in the order in which their bytes lie, outermost first."""
    every = list(range(len(shape)))
    if not place:
        return every
    axes: list[Any] = place[0]
    if len(place) > 1 or not _are_sizes(axes) or sorted(axes) != every:
        raise MessageError(
            "bad_shape", (f"{where}: {shown(place)} are not the axes of {shape!r:.60}")
        )
    return axes


def _borrowed(
    where: str, shape: list[int], dtype: np.dtype[Any], place: list[Any], borrow: Borrow
) -> Array:
    """Return an array in the sender's shared memory.

    `place` is the offset, and the strides if the array is not contiguous. An array on a device has
    both, and the number of an event. The array must not show bytes more than once: with strides of
    0, four bytes could become terabytes when a reader copies them.
    """
    offset, *given = place
    event = given.pop() if len(given) == 2 else None
    strides = given[0] if given else []
    numbers = (
        [offset, *strides, event or 0]
        if type(strides) is list and len(strides) == len(shape) * len(given)
        else [-1]
    )
    count = math.prod(shape)
    if not count or not _are_sizes(numbers) or max(numbers) >> 63:
        raise MessageError(
            "bad_shape", (f"{where}: {shape!r:.60} at {shown(place)} of shared memory")
        )
    if not given:
        return np.ndarray(shape, dtype, borrow(offset, count * dtype.itemsize))
    extent = (
        sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
        + dtype.itemsize
    )
    if count * dtype.itemsize > extent:
        raise MessageError(
            "bad_shape", (f"{where}: {shape!r:.60} lies in {extent} bytes of shared memory")
        )
    if event is not None:
        there = DevicePlace(offset, extent, event, shape, dtype, strides)
        return borrow.on_device(there)  # type: ignore[no-any-return]  # a device's array
    return np.ndarray(shape, dtype, borrow(offset, extent), 0, strides)
