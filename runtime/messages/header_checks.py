"""The fields of a message's header, and the errors of a header that does not fit them (see `wire`).

`wire` recognises correct headers by comparing their types as whole lists. Only a wrong header is
examined here, piece by piece.
"""

from __future__ import annotations

from typing import Any

from runtime.errors import MessageError
from runtime.messages.message import Message, type_name
from runtime.messages.nesting import MAX_DEPTH, NESTS, deeper

PROTOCOL = 2
PLACES = {
    "protocol": int,
    "kind": str,
    "id": int,
    "sender": str,
    "incarnation": int,
    "receiver": str,
    "reply_to": str,
    "answers": int,
    "step": int,
    "plain": list,
    "arrays": list,
}


def check_plain(body: Message, values: tuple[Any, ...]) -> None:
    """Raise MessageError for a value that does not fit its field.

    A wrong value must fail at the sender. If it failed at the receiver, an asker would wait in
    vain.
    """
    for field, value in zip(body.plain_fields, values, strict=True):
        if not field.fits(value):
            raise MessageError(
                "bad_type",
                (
                    f"{type(body).__name__}.{field.name} is {value!r:.60}, "
                    f"expected {type_name(field.annotation)}"
                ),
            )
        if type(value) is dict and deeper(value, MAX_DEPTH - 1):
            raise MessageError(
                "bad_type",
                (f"{type(body).__name__} has plain values nested more than {MAX_DEPTH} deep"),
            )


def no_array(body: Message, name: str, value: object, expected: str) -> MessageError:
    """Return the error for a field of a message that holds no array, or no tuple of arrays."""
    text = f"{type(body).__name__}.{name} is a {type(value).__name__}, expected {expected}"
    return MessageError("bad_type", text)


def _check_depth(values: list[Any]) -> None:
    """Raise MessageError if values are nested too deep. Call it before any code prints or walks
    them."""
    if deeper(values, MAX_DEPTH):
        raise MessageError("bad_header", f"its values are nested more than {MAX_DEPTH} deep")


def check_places(head: Any) -> None:
    """Check a header. Raises MessageError with the fault if it is wrong."""
    if not isinstance(head, list) or len(head) != len(PLACES):
        raise MessageError("bad_header", f"not an array of {len(PLACES)} items")
    for value in head:
        if type(value) in NESTS:
            _check_depth(value)
    if head[0] != PROTOCOL:
        raise MessageError(
            "wrong_version", (f"peer speaks protocol {head[0]!r:.20}, this process {PROTOCOL}")
        )
    for (name, expected), value in zip(PLACES.items(), head, strict=True):
        if type(value) is not expected:
            raise MessageError(
                "bad_header", (f"{name} is {type(value).__name__}, expected {expected.__name__}")
            )


def received_plain(kind: type[Message], values: list[Any]) -> list[Any]:
    """Return the plain values of a received message, with lists as tuples. Raises MessageError for
    a value that does not fit its field."""
    _check_depth(values)
    if len(values) != len(kind.plain_fields):
        raise MessageError(
            "bad_header",
            (f"{kind.kind} has {len(kind.plain_fields)} plain fields, found {values!r:.60}"),
        )
    found: list[Any] = []
    for field, raw in zip(kind.plain_fields, values, strict=True):
        value = tuple(raw) if isinstance(raw, list) else raw
        if not field.fits(value):
            raise MessageError(
                "bad_type",
                (
                    f"{kind.kind}.{field.name} is {raw!r:.60}, "
                    f"expected {type_name(field.annotation)}"
                ),
            )
        found.append(value)
    return found
