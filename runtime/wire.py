"""Envelope <-> frames, without sockets: one msgpack header, then one frame per array, which *is* its memory.

Header (a flat msgpack array, at most MAX_HEADER_BYTES):
    [PROTOCOL, kind, id, sender, incarnation, receiver, reply_to, answers, step, plain values, array descriptors]
    an array descriptor is [dtype name, [dimensions]]; a `tuple[Array, ...]` field is preceded by its count.
    An array in memory that the receiver shares has no frame but a third item, its offset there, and, if it is not
    contiguous, a fourth, [strides] in bytes.
Decoding trusts nothing: every mistake raises MessageError with a reason label and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack
import numpy as np

from runtime.errors import MessageError
from runtime.messages import REGISTRY, Array, Envelope, Message

PROTOCOL = 1
MAX_HEADER_BYTES = 64 * 1024  # a Directory of 400 processes fits; a header of training is about 150 bytes
MAX_DIMENSIONS = 8
MAX_ARRAYS = 1024
MAX_DEPTH = 16  # of nested lists and dicts in the plain values: whoever shows or walks them recurses
DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip
_NESTS = (list, tuple, dict)
_PLACE = ("protocol", "kind", "id", "sender", "incarnation", "receiver", "reply_to", "answers", "step")
_TYPES = (int, str, int, str, int, str, str, int, int)

Frame = bytes | memoryview
Lend = Callable[[Array], int | None]  # an array -> its offset in shared memory, None if it must travel
Borrow = Callable[[int, int], Array]  # (offset, bytes) -> those bytes of the sender's memory, read-only


def _nowhere(array: Array) -> int | None:
    return None


def _nothing(offset: int, size: int) -> Array:
    raise MessageError("bad_shape", f"{size} bytes at {offset} of shared memory, but none is shared with the sender")


def encode(envelope: Envelope, lend: Lend = _nowhere) -> list[Frame]:
    """Frames of an envelope. Contiguous arrays are referenced, not copied; do not write to them afterwards."""
    body = envelope.message
    _check_plain(body)
    descriptors: list[Any] = []
    arrays = 0
    frames: list[Frame] = [b""]
    for name, several in body.array_fields:
        value = getattr(body, name)
        if several:
            descriptors.append(len(value))
        for array in value if several else (value,):
            descriptor = _descriptor(f"{body.kind}.{name}", array)
            offset = lend(array)
            if offset is None:
                plain = np.ascontiguousarray(array, DTYPES[array.dtype.name])  # also turns foreign byte order into ours
                frames.append(plain.reshape(-1).view(np.uint8).data)
            else:
                descriptor += [offset] if array.flags.c_contiguous else [offset, list(array.strides)]
            descriptors.append(descriptor)
            arrays += 1
    if arrays > MAX_ARRAYS:
        raise MessageError("too_large", f"{body.kind} has {arrays} arrays, at most {MAX_ARRAYS}")
    values = body.plain_values()
    if any(type(value) is dict and _deeper(value, MAX_DEPTH - 1) for value in values):
        raise MessageError("bad_type", f"{body.kind} has plain values nested more than {MAX_DEPTH} deep")
    try:
        frames[0] = msgpack.packb(
            [
                PROTOCOL, body.kind, envelope.id, envelope.sender, envelope.incarnation, envelope.receiver,
                envelope.reply_to, envelope.answers, envelope.step, values, descriptors,
            ]
        )  # fmt: skip
    except (TypeError, ValueError, OverflowError) as error:
        raise MessageError("bad_type", f"{body.kind} cannot be encoded: {error}") from None
    if len(frames[0]) > MAX_HEADER_BYTES:
        raise MessageError("too_large", f"header of {body.kind} has {len(frames[0])} bytes, at most {MAX_HEADER_BYTES}")
    return frames


def _check_plain(body: Message) -> None:
    """A wrong value must fail here, at its author, not at the receiver, whose asker would wait."""
    for field, value in zip(body.plain_fields, body.plain_values(), strict=True):
        if not field.fits(value):
            raise MessageError("bad_type", f"{body.kind}.{field.name} is {value!r:.60}, expected {field.annotation}")


def decode(frames: Sequence[Any], borrow: Borrow = _nothing) -> Envelope:
    """Envelope of received frames (bytes-like). Its arrays are read-only views of the frames or of shared memory."""
    head = _header(frames)
    kind = REGISTRY.get(head[1])
    if kind is None:
        raise MessageError("unknown_kind", f"no message is called {head[1]!r:.80}")
    values = _plain(kind, head[9])
    values.update(_arrays(kind, head[10], frames[1:], borrow))
    return Envelope(kind(**values), *head[2:9])


def size_of(frames: Sequence[Any]) -> int:
    """Bytes of all frames: what byte credits count."""
    return sum(frame.nbytes if isinstance(frame, memoryview) else len(frame) for frame in frames)


def _descriptor(where: str, array: Array) -> list[Any]:
    if array.dtype.name not in DTYPES:
        raise MessageError("bad_type", f"{where} has dtype {array.dtype}, which no message carries")
    if array.ndim > MAX_DIMENSIONS:
        raise MessageError("bad_shape", f"{where} has {array.ndim} dimensions, at most {MAX_DIMENSIONS}")
    return [array.dtype.name, list(array.shape)]


def _deeper(value: Any, levels: int) -> bool:
    """Is this list, tuple or dict nested more than `levels` deep?"""
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(type(item) in _NESTS and _deeper(item, levels - 1) for item in inside)


def _header(frames: Sequence[Any]) -> list[Any]:
    if not frames:
        raise MessageError("bad_header", "no frames")
    raw = bytes(frames[0]) if len(frames[0]) <= MAX_HEADER_BYTES else b""
    if not raw:
        raise MessageError("bad_header", f"header has {len(frames[0])} bytes, expected 1 to {MAX_HEADER_BYTES}")
    try:
        head = msgpack.unpackb(raw, strict_map_key=True, max_bin_len=0, max_ext_len=0)
    except Exception as error:  # noqa: BLE001  # msgpack raises its own kinds, ValueError, and UnicodeDecodeError
        raise MessageError("bad_header", f"not a msgpack header: {type(error).__name__}") from None
    if not isinstance(head, list) or len(head) != 11:
        raise MessageError("bad_header", "not an array of 11 items")
    if any(type(item) in _NESTS and _deeper(item, MAX_DEPTH) for item in head):
        raise MessageError("bad_header", f"its values are nested more than {MAX_DEPTH} deep")
    if head[0] != PROTOCOL:
        raise MessageError("wrong_version", f"peer speaks protocol {head[0]!r:.20}, this process {PROTOCOL}")
    for name, expected, value in zip(_PLACE, _TYPES, head, strict=False):
        if type(value) is not expected:
            raise MessageError("bad_header", f"{name} is {type(value).__name__}, expected {expected.__name__}")
    return head


def _plain(kind: type[Message], values: Any) -> dict[str, Any]:
    if not isinstance(values, list) or len(values) != len(kind.plain_fields):
        raise MessageError("bad_header", f"{kind.kind} has {len(kind.plain_fields)} plain fields, found {values!r:.60}")
    found: dict[str, Any] = {}
    for field, raw in zip(kind.plain_fields, values, strict=True):
        value = tuple(raw) if isinstance(raw, list) else raw
        if not field.fits(value):
            raise MessageError("bad_type", f"{kind.kind}.{field.name} is {raw!r:.60}, expected {field.annotation}")
        found[field.name] = value
    return found


def _arrays(kind: type[Message], descriptors: Any, frames: Sequence[Any], borrow: Borrow) -> dict[str, Any]:
    if not isinstance(descriptors, list) or len(frames) > MAX_ARRAYS:
        raise MessageError("bad_header", f"{kind.kind}: {len(frames)} array frames, at most {MAX_ARRAYS}")
    todo, supply = iter(descriptors), iter(frames)
    found: dict[str, Any] = {}
    try:
        for name, several in kind.array_fields:
            count = next(todo) if several else 1
            if type(count) is not int or not 0 <= count <= len(descriptors):
                raise MessageError("bad_header", f"{kind.kind}.{name}: {count!r:.20} arrays in {len(frames)} frames")
            made = tuple(_array(kind, name, next(todo), supply, borrow) for _ in range(count))
            found[name] = made if several else made[0]
    except (StopIteration, RuntimeError):  # a generator turns StopIteration into RuntimeError
        raise MessageError("bad_header", f"{kind.kind}: fewer arrays than its fields need") from None
    if next(todo, None) is not None or next(supply, None) is not None:
        raise MessageError("bad_header", f"{kind.kind}: more frames or descriptors than its fields hold")
    return found


def _array(kind: type[Message], name: str, descriptor: Any, frames: Iterator[Any], borrow: Borrow) -> Array:
    where = f"{kind.kind}.{name}"
    if not (isinstance(descriptor, list) and 2 <= len(descriptor) <= 4 and isinstance(descriptor[1], list)):
        raise MessageError("bad_shape", f"{where}: no array descriptor: {descriptor!r:.60}")
    dtype_name, shape, *place = descriptor
    dtype = DTYPES.get(dtype_name) if isinstance(dtype_name, str) else None
    if dtype is None:
        raise MessageError("bad_type", f"{where}: dtype {dtype_name!r:.20} is not carried")
    if len(shape) > MAX_DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
        raise MessageError("bad_shape", f"{where}: shape {shape!r:.60}")
    if place:
        return _borrowed(where, shape, dtype, place, borrow)
    frame = next(frames)
    size = memoryview(frame).nbytes
    if math.prod(shape) * dtype.itemsize != size:
        raise MessageError("bad_shape", f"{where}: {dtype_name}{shape!r:.60} does not fill a frame of {size} bytes")
    try:
        array = np.frombuffer(frame, dtype).reshape(shape) if size else np.empty(shape, dtype)
    except ValueError:  # numpy has its own limit on the other dimensions of an empty array
        raise MessageError("bad_shape", f"{where}: shape {shape!r:.60}") from None
    array.flags.writeable = False
    return array


def _borrowed(where: str, shape: list[int], dtype: np.dtype[Any], place: list[Any], borrow: Borrow) -> Array:
    """An array in shared memory: offset, and strides unless it is contiguous. numpy checks that they stay inside."""
    offset, *given = place
    strides = given[0] if given else [math.prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape))]
    numbers = [offset, *strides] if isinstance(strides, list) and len(strides) == len(shape) else [None]
    if any(type(n) is not int or not 0 <= n < 1 << 63 for n in numbers) or not math.prod(shape):
        raise MessageError("bad_shape", f"{where}: {shape!r:.60} at {place!r:.60} of shared memory")
    extent = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) + dtype.itemsize
    return np.ndarray(shape, dtype, borrow(offset, extent), 0, strides)
