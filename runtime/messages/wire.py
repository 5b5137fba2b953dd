"""The wire format: an envelope as frames, and back. First a msgpack header, then one frame with the
memory of each array. No sockets here.

The header is a flat msgpack array of at most MAX_HEADER_BYTES:
    [PROTOCOL, kind, id, sender, incarnation, receiver, reply_to, answers, step, plain values,
     array descriptors]

An array descriptor is [dtype name, [dimensions]]. A `tuple[Array, ...]` field is preceded by its
count. If a frame's bytes do not lie in the order of the dimensions, the descriptor has a third
item: [axes], from the outermost in. An array in memory that the receiver shares has no frame. Its
third item is the offset there; if the array is not contiguous, a fourth item is its [strides] in
bytes. An array in memory of a device has both, and a fifth item: the number of the event behind the
work that writes it.

Decoding trusts nothing: every mistake raises MessageError with a reason label and changes nothing.
Correct headers are recognised by comparing types as whole lists. `header_checks` finds the fault in
all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from runtime.errors import MessageError
from runtime.messages.arrays import Frame, Lend, encode_arrays, nowhere
from runtime.messages.frame_sizes import size_of as size_of
from runtime.messages.header_checks import (
    PLACES,
    PROTOCOL,
    check_places,
    check_plain,
    received_plain,
)
from runtime.messages.message import REGISTRY, Envelope
from runtime.messages.received_arrays import Borrow, decode_arrays, nothing

# a Directory of 400 processes fits; headers in training have about 150 bytes
MAX_HEADER_BYTES = 64 * 1024
_TYPES = list(PLACES.values())
# one packer for all: making one takes as long as using it, and only the loop's thread encodes
_pack = msgpack.Packer().pack


def encode(envelope: Envelope, lend: Lend = nowhere) -> list[Frame]:
    """Return the frames of an envelope. Arrays without gaps are referenced, not copied. Do not
    write to them afterwards. Raises MessageError if the message cannot be encoded."""
    body = envelope.message
    values = body.plain_values()
    if list(map(type, values)) != body.plain_types:
        check_plain(body, values)
    descriptors: list[Any] = []
    frames: list[Frame] = [b""]
    if body.array_fields:
        encode_arrays(body, lend, descriptors, frames)
    try:
        # passing the fields one by one would take 0.25 us more
        head = _pack((PROTOCOL, body.kind, *envelope[1:], values, descriptors))
    except (TypeError, ValueError, OverflowError) as error:
        text = f"{type(body).__name__} cannot be encoded: {error}"
        raise MessageError("bad_type", text) from None
    if len(head) > MAX_HEADER_BYTES:
        raise MessageError(
            "too_large",
            (f"header of {body.kind} has {len(head)} bytes, at most {MAX_HEADER_BYTES}"),
        )
    frames[0] = head
    return frames


def decode(frames: Sequence[Any], borrow: Borrow = nothing) -> Envelope:
    """Return the envelope of received frames (bytes-like). Its arrays are read-only views of the
    frames or of shared memory. Raises MessageError."""
    head = _header(frames)
    kind = REGISTRY.get(head[1])
    if kind is None:
        raise MessageError("unknown_kind", f"no message is called {head[1]!r:.80}")
    values = head[9]
    if list(map(type, values)) != kind.plain_types:
        values = received_plain(kind, values)
    if not head[10] and len(frames) == 1 and not kind.array_fields:
        return Envelope(kind(*values), *head[2:9])
    named = {field.name: value for field, value in zip(kind.plain_fields, values, strict=True)}
    return Envelope(kind(**named, **decode_arrays(kind, head[10], frames[1:], borrow)), *head[2:9])


def _header(frames: Sequence[Any]) -> list[Any]:
    if not frames:
        raise MessageError("bad_header", "no frames")
    raw = frames[0]
    if not 0 < len(raw) <= MAX_HEADER_BYTES:
        raise MessageError(
            "bad_header", (f"header has {len(raw)} bytes, expected 1 to {MAX_HEADER_BYTES}")
        )
    try:
        head = msgpack.unpackb(raw, strict_map_key=True, max_bin_len=0, max_ext_len=0)
    except Exception as error:  # noqa: BLE001  # msgpack raises its own kinds, ValueError, and UnicodeDecodeError
        raise MessageError("bad_header", f"not a msgpack header: {type(error).__name__}") from None
    if type(head) is not list or list(map(type, head)) != _TYPES or head[0] != PROTOCOL:
        check_places(head)
    return head  # type: ignore[no-any-return]  # msgpack has no types
