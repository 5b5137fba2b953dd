"""Envelope <-> frames, without sockets: one msgpack header, then one frame per array, which *is* its memory.

Header (a flat msgpack array, at most MAX_HEADER_BYTES):
    [PROTOCOL, kind, id, sender, incarnation, receiver, reply_to, answers, step, plain values, array descriptors]
    an array descriptor is [dtype name, [dimensions]]; a `tuple[Array, ...]` field is preceded by its count.
    A frame whose bytes do not lie in the order of the dimensions has a third item, [axes] from the outermost in.
    An array in memory that the receiver shares has no frame but, as third item, its offset there, and, if it is not
    contiguous, a fourth, [strides] in bytes.
Decoding trusts nothing: every mistake raises MessageError with a reason label and changes nothing. What is right is
recognised by comparing types as whole lists; only what is not is looked at piece by piece, to say what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack
import numpy as np

from runtime.errors import MessageError
from runtime.messages.message import REGISTRY, Array, Envelope, Message

PROTOCOL = 2
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
_NAMES = {dtype: name for name, dtype in DTYPES.items()}  # asking a dtype for its name takes 3 us
_INTEGERS = {int}
_NESTS = (list, tuple, dict)
_PLACES = {
    "protocol": int, "kind": str, "id": int, "sender": str, "incarnation": int, "receiver": str, "reply_to": str,
    "answers": int, "step": int, "plain": list, "arrays": list,
}  # fmt: skip
_TYPES = list(_PLACES.values())
_pack = msgpack.Packer().pack  # making one takes as long as using it; messages are encoded on one thread, the loop's

Frame = bytes | memoryview
Lend = Callable[[Array], int | None]  # an array -> its offset in shared memory, None if it must travel
Borrow = Callable[[int, int], Array]  # (offset, bytes) -> those bytes of the sender's memory, read-only


def _nowhere(array: Array) -> int | None:
    return None


def _nothing(offset: int, size: int) -> Array:
    raise MessageError("bad_shape", f"{size} bytes at {offset} of shared memory, but none is shared with the sender")


def encode(envelope: Envelope, lend: Lend = _nowhere) -> list[Frame]:
    """Frames of an envelope. Arrays without gaps are referenced, not copied; do not write to them afterwards."""
    body = envelope.message
    values = body.plain_values()
    if list(map(type, values)) != body.plain_types:
        _check_plain(body, values)
    descriptors: list[Any] = []
    frames: list[Frame] = [b""]
    if body.array_fields:
        _encode_arrays(body, lend, descriptors, frames)
    try:
        head = _pack(
            (
                PROTOCOL, body.kind, envelope.id, envelope.sender, envelope.incarnation, envelope.receiver,
                envelope.reply_to, envelope.answers, envelope.step, values, descriptors,
            )
        )  # fmt: skip
    except (TypeError, ValueError, OverflowError) as error:
        raise MessageError("bad_type", f"{body.kind} cannot be encoded: {error}") from None
    if len(head) > MAX_HEADER_BYTES:
        raise MessageError("too_large", f"header of {body.kind} has {len(head)} bytes, at most {MAX_HEADER_BYTES}")
    frames[0] = head
    return frames


def _check_plain(body: Message, values: tuple[Any, ...]) -> None:
    """A wrong value must fail here, at its author, not at the receiver, whose asker would wait."""
    for field, value in zip(body.plain_fields, values, strict=True):
        if not field.fits(value):
            raise MessageError("bad_type", f"{body.kind}.{field.name} is {value!r:.60}, expected {field.annotation}")
        if type(value) is dict and _deeper(value, MAX_DEPTH - 1):
            raise MessageError("bad_type", f"{body.kind} has plain values nested more than {MAX_DEPTH} deep")


def _encode_arrays(body: Message, lend: Lend, descriptors: list[Any], frames: list[Frame]) -> None:
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
                descriptor += [offset] if array.flags.c_contiguous else [offset, list(array.strides)]
            descriptors.append(descriptor)
            arrays += 1
    if arrays > MAX_ARRAYS:
        raise MessageError("too_large", f"{body.kind} has {arrays} arrays, at most {MAX_ARRAYS}")


def _descriptor(body: Message, name: str, array: Array) -> list[Any]:
    dtype = _NAMES.get(array.dtype) or array.dtype.name
    if dtype not in DTYPES:
        raise MessageError("bad_type", f"{body.kind}.{name} has dtype {array.dtype}, which no message carries")
    if array.ndim > MAX_DIMENSIONS:
        raise MessageError("bad_shape", f"{body.kind}.{name} has {array.ndim} dimensions, at most {MAX_DIMENSIONS}")
    return [dtype, list(array.shape)]


def _frame(array: Array, descriptor: list[Any]) -> memoryview:
    """The array's bytes, in the order in which they lie; the descriptor says which if it is not the dimensions'."""
    if not array.flags.c_contiguous:
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        array = array.transpose(axes)
        descriptor.append(axes)
    whole = np.ascontiguousarray(array, DTYPES[descriptor[0]])  # fills gaps, and turns foreign byte order into ours
    return whole.reshape(-1).view(np.uint8).data


def decode(frames: Sequence[Any], borrow: Borrow = _nothing) -> Envelope:
    """Envelope of received frames (bytes-like). Its arrays are read-only views of the frames or of shared memory."""
    head = _header(frames)
    kind = REGISTRY.get(head[1])
    if kind is None:
        raise MessageError("unknown_kind", f"no message is called {head[1]!r:.80}")
    values = head[9]
    if list(map(type, values)) != kind.plain_types:
        values = _plain(kind, values)
    if not head[10] and len(frames) == 1 and not kind.array_fields:
        return Envelope(kind(*values), *head[2:9])
    named = {field.name: value for field, value in zip(kind.plain_fields, values, strict=True)}
    return Envelope(kind(**named, **_arrays(kind, head[10], frames[1:], borrow)), *head[2:9])


def size_of(frames: Sequence[Any]) -> int:
    """Bytes of all frames: what byte credits count."""
    return sum(frame.nbytes if isinstance(frame, memoryview) else len(frame) for frame in frames)


def _deeper(value: Any, levels: int) -> bool:
    """Is this list, tuple or dict nested more than `levels` deep?"""
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(type(item) in _NESTS and _deeper(item, levels - 1) for item in inside)


def _check_depth(values: list[Any]) -> None:
    """Before anybody shows or walks what came."""
    if _deeper(values, MAX_DEPTH):
        raise MessageError("bad_header", f"its values are nested more than {MAX_DEPTH} deep")


def _header(frames: Sequence[Any]) -> list[Any]:
    if not frames:
        raise MessageError("bad_header", "no frames")
    raw = frames[0]
    if not 0 < len(raw) <= MAX_HEADER_BYTES:
        raise MessageError("bad_header", f"header has {len(raw)} bytes, expected 1 to {MAX_HEADER_BYTES}")
    try:
        head = msgpack.unpackb(raw, strict_map_key=True, max_bin_len=0, max_ext_len=0)
    except Exception as error:  # noqa: BLE001  # msgpack raises its own kinds, ValueError, and UnicodeDecodeError
        raise MessageError("bad_header", f"not a msgpack header: {type(error).__name__}") from None
    if type(head) is not list or list(map(type, head)) != _TYPES or head[0] != PROTOCOL:
        _check_places(head)
    return head  # type: ignore[no-any-return]  # msgpack has no types


def _check_places(head: Any) -> None:
    """Say what is wrong with a header."""
    if not isinstance(head, list) or len(head) != len(_PLACES):
        raise MessageError("bad_header", f"not an array of {len(_PLACES)} items")
    for value in head:
        if type(value) in _NESTS:
            _check_depth(value)
    if head[0] != PROTOCOL:
        raise MessageError("wrong_version", f"peer speaks protocol {head[0]!r:.20}, this process {PROTOCOL}")
    for (name, expected), value in zip(_PLACES.items(), head, strict=True):
        if type(value) is not expected:
            raise MessageError("bad_header", f"{name} is {type(value).__name__}, expected {expected.__name__}")


def _plain(kind: type[Message], values: list[Any]) -> list[Any]:
    _check_depth(values)
    if len(values) != len(kind.plain_fields):
        raise MessageError("bad_header", f"{kind.kind} has {len(kind.plain_fields)} plain fields, found {values!r:.60}")
    found: list[Any] = []
    for field, raw in zip(kind.plain_fields, values, strict=True):
        value = tuple(raw) if isinstance(raw, list) else raw
        if not field.fits(value):
            raise MessageError("bad_type", f"{kind.kind}.{field.name} is {raw!r:.60}, expected {field.annotation}")
        found.append(value)
    return found


def _arrays(kind: type[Message], descriptors: list[Any], frames: Sequence[Any], borrow: Borrow) -> dict[str, Any]:
    if len(frames) > MAX_ARRAYS:
        raise MessageError("bad_header", f"{kind.kind}: {len(frames)} array frames, at most {MAX_ARRAYS}")
    todo, supply = iter(descriptors), iter(frames)
    found: dict[str, Any] = {}
    try:
        for name, several in kind.array_fields:
            if not several:
                found[name] = _array(kind, name, next(todo), supply, borrow)
                continue
            count = next(todo)
            if type(count) is not int or not 0 <= count <= len(descriptors):
                raise MessageError("bad_header", f"{kind.kind}.{name}: {_shown(count)} arrays in {len(frames)} frames")
            found[name] = tuple([_array(kind, name, next(todo), supply, borrow) for _ in range(count)])
    except StopIteration:
        raise MessageError("bad_header", f"{kind.kind}: fewer arrays than its fields need") from None
    if next(todo, None) is not None or next(supply, None) is not None:
        raise MessageError("bad_header", f"{kind.kind}: more frames or descriptors than its fields hold")
    return found


def _array(kind: type[Message], name: str, descriptor: Any, frames: Iterator[Any], borrow: Borrow) -> Array:
    where = f"{kind.kind}.{name}"
    if not (type(descriptor) is list and 2 <= len(descriptor) <= 4 and type(descriptor[1]) is list):
        raise MessageError("bad_shape", f"{where}: no array descriptor: {_shown(descriptor)}")
    dtype_name, shape, *place = descriptor
    dtype = DTYPES.get(dtype_name) if type(dtype_name) is str else None
    if dtype is None:
        raise MessageError("bad_type", f"{where}: dtype {_shown(dtype_name)} is not carried")
    if len(shape) > MAX_DIMENSIONS or not _are_sizes(shape):
        raise MessageError("bad_shape", f"{where}: shape {_shown(shape)}")
    if place and type(place[0]) is not list:
        return _borrowed(where, shape, dtype, place, borrow)
    axes = _axes(where, shape, place)
    frame = next(frames)
    size = memoryview(frame).nbytes
    if math.prod(shape) * dtype.itemsize != size:
        raise MessageError("bad_shape", f"{where}: {dtype_name}{shape!r:.60} does not fill a frame of {size} bytes")
    try:
        array = np.frombuffer(frame, dtype).reshape([shape[axis] for axis in axes]) if size else np.empty(shape, dtype)
    except ValueError:  # numpy has its own limit on the other dimensions of an empty array
        raise MessageError("bad_shape", f"{where}: shape {shape!r:.60}") from None
    array.flags.writeable = False
    return array.transpose([axes.index(axis) for axis in range(len(axes))]) if place and size else array


def _are_sizes(numbers: list[Any]) -> bool:
    """Are these integers, none of them negative?"""
    return not numbers or (set(map(type, numbers)) == _INTEGERS and min(numbers) >= 0)


def _shown(value: Any) -> str:
    """What came, for an error."""
    return "values nested too deep to show" if type(value) in _NESTS and _deeper(value, MAX_DEPTH) else f"{value!r:.60}"


def _axes(where: str, shape: list[int], place: list[Any]) -> list[int]:
    """The axes in the order in which their bytes lie, outermost first."""
    every = list(range(len(shape)))
    if not place:
        return every
    axes: list[Any] = place[0]
    if len(place) > 1 or not _are_sizes(axes) or sorted(axes) != every:
        raise MessageError("bad_shape", f"{where}: {_shown(place)} are not the axes of {shape!r:.60}")
    return axes


def _borrowed(where: str, shape: list[int], dtype: np.dtype[Any], place: list[Any], borrow: Borrow) -> Array:
    """An array in shared memory: offset, and strides unless it is contiguous. numpy checks that they stay inside."""
    offset, *given = place
    strides = given[0] if given else []
    numbers = [offset, *strides] if type(strides) is list and len(strides) == len(shape) * len(given) else [-1]
    count = math.prod(shape)
    if not count or not _are_sizes(numbers) or max(numbers) >> 63:
        raise MessageError("bad_shape", f"{where}: {shape!r:.60} at {_shown(place)} of shared memory")
    if not given:
        return np.ndarray(shape, dtype, borrow(offset, count * dtype.itemsize))
    extent = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) + dtype.itemsize
    return np.ndarray(shape, dtype, borrow(offset, extent), 0, strides)
