"""Plain values in messages: any nesting of None, bool, int, float, str, bytes, tuples, lists, dicts
with keys of type str, arrays and NumPy scalars. Arrays keep their own frames, so they travel as in
any message.

A value is written as a tree of pairs [tag, content] in msgpack; an array is its number among the
message's arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from runtime.errors import MessageError, Unsendable
from runtime.messages.message import Array, Message, message

KINDS = (
    "None, bool, int, float, str, bytes, arrays, and tuples, lists and dicts of these "
    "(a dict's keys are str)"
)
_PLAIN = (type(None), bool, int, float, str)
MOST_DEEP = 64  # nested tuples, lists and dicts
# called with each array that a value holds; it returns the array to be sent
Place = Callable[[Array], Array]


@message
class Value(Message):
    """A plain value: the answer to an ask whose handler replies with one. `tree`: its structure as
    msgpack. `arrays`: the arrays in it."""

    tree: Array
    arrays: tuple[Array, ...]


def packed(value: object, place: Place = lambda array: array) -> Value:
    """Return the message with a plain value. `place` can move arrays into shared memory. Raises
    Unsendable, with the place in the value, if a part of it is of another type."""
    arrays: list[Array] = []
    tree = _tree(value, "", 0, arrays, place)
    try:
        text = msgspec.msgpack.encode(tree)
    except (OverflowError, UnicodeEncodeError) as error:  # an int of more than 64 bits
        raise Unsendable("bad_type", f"a value cannot be sent: {error}") from None
    return Value(tree=np.frombuffer(text, np.uint8), arrays=tuple(arrays))


def unpacked(said: Value) -> Any:
    """Return the plain value of a message. Its arrays are read-only views. Raises MessageError if
    the message holds none."""
    try:
        return _value(msgspec.msgpack.decode(said.tree.tobytes()), said.arrays)
    except (
        msgspec.DecodeError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:
        raise MessageError("bad_type", f"{said!r} holds no plain value: {error}") from None


def _tree(value: object, at: str, deep: int, arrays: list[Array], place: Place) -> list[Any]:
    if isinstance(value, np.generic):
        arrays.append(np.asarray(value))
        return ["scalar", len(arrays) - 1]
    if type(value) in _PLAIN:
        return ["", value]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", bytes(value)]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise Unsendable("bad_type", f"value{at}: an array of objects cannot be sent")
        arrays.append(place(value))
        return ["array", len(arrays) - 1]
    if deep == MOST_DEEP:
        raise Unsendable("bad_type", f"value{at[:200]}: nested more than {MOST_DEEP} deep")
    if isinstance(value, (tuple, list)):
        tag = "tuple" if isinstance(value, tuple) else "list"
        return [
            tag,
            [_tree(each, f"{at}[{n}]", deep + 1, arrays, place) for n, each in enumerate(value)],
        ]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        items = value.items()
        return [
            "dict",
            {key: _tree(each, f"{at}[{key!r}]", deep + 1, arrays, place) for key, each in items},
        ]
    kind = type(value).__name__
    found = "a dict with keys that are not str" if isinstance(value, dict) else kind
    if inspect.isawaitable(value):
        raise Unsendable("bad_type", f"value{at}: found {found}: write `await` before the call")
    raise Unsendable("bad_type", f"value{at}: found {found}, expected {KINDS}")


def _value(tree: Any, arrays: tuple[Array, ...]) -> Any:
    tag, content = tree
    if tag in ("", "bytes"):
        return content
    if tag == "array":
        return arrays[content]
    if tag == "scalar":
        return arrays[content][()]
    if tag == "dict":
        return {key: _value(each, arrays) for key, each in content.items()}
    if tag in ("tuple", "list"):
        found = [_value(each, arrays) for each in content]
        return tuple(found) if tag == "tuple" else found
    raise ValueError(f"no kind of value is called {tag!r:.20}")
