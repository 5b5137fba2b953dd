"""Plain values in messages: they arrive as they were sent, over the wire format, and other objects
are refused with their place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import MessageError, Unsendable
from runtime.messages.message import Envelope
from runtime.messages.plain_values import MOST_DEEP, Value, packed, unpacked
from runtime.messages.wire import decode, encode

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)
NESTED = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def travelled(value: object) -> Any:
    """The value after a journey as bytes."""
    frames = encode(Envelope(packed(value), 1, "a", 1, "b"))
    message = decode([bytes(frame) for frame in frames]).message
    assert isinstance(message, Value)
    return unpacked(message)


@given(NESTED)
def test_a_plain_value_arrives_with_its_types(value: object) -> None:
    found = travelled(value)
    assert found == value
    assert repr(found) == repr(value)  # 1 is not True, and a list is not a tuple


def test_arrays_and_numbers_of_numpy_arrive_with_their_dtype_and_shape() -> None:
    arrays = [np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros((0, 4)), np.array(3.5)]
    found = travelled({"arrays": arrays, "one": (np.float32(0.5), math.nan)})
    for mine, theirs in zip(arrays, found["arrays"], strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert np.array_equal(mine, theirs)
    assert type(found["one"][0]) is np.float32
    assert math.isnan(found["one"][1])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, {2}]}, "value['a'][1]: found set, expected None, bool, int"),
        ({1: 2}, "value: found a dict with keys that are not str"),
        (print, "value: found builtin_function_or_method"),
        ((np.array([print]),), "value[0]: an array of objects cannot be sent"),
        (2**64, "a value cannot be sent"),
        ("\ud800", "a value cannot be sent"),
    ],
)
def test_another_object_is_refused_with_its_place(value: object, text: str) -> None:
    with pytest.raises(Unsendable) as refused:
        packed(value)
    assert text in str(refused.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(Unsendable, match=f"nested more than {MOST_DEEP} deep"):
        packed(endless)


@pytest.mark.parametrize(
    "tree", [b"", b"\xc1", b"\x01", b"\x92\xa5array\x05", b"\x92\xa4what\x00", b"\x92\xa4dict\x00"]
)
def test_a_message_that_holds_no_value_is_an_error(tree: bytes) -> None:
    with pytest.raises(MessageError, match="holds no plain value"):
        unpacked(Value(tree=np.frombuffer(tree, np.uint8), arrays=()))
