"""Arrays on the wire as they lie in memory: with their axes in any order, and only with a valid
order.
"""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.extra.numpy as hnp
import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import MessageError
from runtime.messages import wire
from runtime.messages.arrays import Frame
from runtime.messages.message import Array, Envelope, Message, message


@message
class Box(Message):
    blob: Array


SIX = bytes(range(24))  # float32[2, 3]


def frames_of(array: Array) -> list[Frame]:
    return wire.encode(Envelope(Box(blob=array), 7, "a", 1, "b"))


def blob_of(frames: list[Any]) -> Array:
    found = wire.decode(frames).message
    assert isinstance(found, Box)
    return found.blob


@pytest.mark.parametrize(
    ("shape", "strides"),
    [([1 << 40], [0]), ([1 << 62, 4], [0, 0]), ([3, 4], [4, 4]), ([2, 7], [0, 4])],
)
def test_an_array_that_would_show_bytes_of_shared_memory_more_than_once_is_a_bad_shape(
    shape: list[int], strides: list[int]
) -> None:
    frames = described("float32", shape, 0, strides)[:1]
    with pytest.raises(MessageError) as caught:
        wire.decode(frames, lambda offset, size: np.frombuffer(SIX, np.uint8, size, offset))
    assert caught.value.reason == "bad_shape"


def described(*descriptor: Any) -> list[Any]:
    """The header and frame of a box with that descriptor."""
    return [
        msgpack.packb([wire.PROTOCOL, Box.kind, 7, "a", 1, "b", "", 0, -1, [], [descriptor]]),
        SIX,
    ]


def reason_of(frames: list[Any]) -> str:
    with pytest.raises(MessageError) as caught:
        wire.decode(frames)
    assert len(str(caught.value)) < 400  # the text goes to a log
    return caught.value.reason


def test_an_array_without_gaps_is_not_copied_whatever_the_order_of_its_axes() -> None:
    whole = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    for axes in itertools.permutations(range(4)):
        sent = whole.transpose(axes)
        frames = frames_of(sent)
        found = blob_of(frames)
        assert np.shares_memory(found, whole)
        assert found.strides == sent.strides
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, sent)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_view_of_an_array_arrives_with_its_values(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=5, max_side=4))
    whole = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    sent = whole.transpose(data.draw(st.permutations(range(len(shape)))))
    if shape:
        sent = sent[
            data.draw(hnp.basic_indices(sent.shape, allow_newaxis=False, allow_ellipsis=False))
        ]
    found = blob_of([bytes(frame) for frame in frames_of(np.asarray(sent))])
    assert found.shape == np.shape(sent)
    np.testing.assert_array_equal(found, sent)


@pytest.mark.parametrize(
    "axes",
    [
        [0],
        [0, 0],
        [1, 2],
        [-1, 0],
        [0, 1, 2],
        [True, 0],
        [1.0, 0],
        ["1", 0],
        [None, 0],
        [[1], 0],
        [2**64 - 1, 0],
        [],
    ],
)
def test_axes_that_do_not_match_the_shape_are_a_bad_shape(axes: list[Any]) -> None:
    assert reason_of(described("float32", [2, 3], axes)) == "bad_shape"
    assert reason_of(described("float32", [2, 3], [1, 0], 0)) == "bad_shape"
    lying = np.frombuffer(SIX, np.float32).reshape(3, 2)
    np.testing.assert_array_equal(blob_of(described("float32", [2, 3], [1, 0])), lying.T)


@pytest.mark.parametrize("place", range(3))
def test_a_descriptor_nested_too_deep_is_refused_without_being_shown(place: int) -> None:
    descriptor: list[Any] = ["float32", [2, 3], 0]
    descriptor[place] = None
    raw, frame = described(*descriptor)
    raw = raw.replace(b"\xc0", b"\x91" * 990 + b"\x90")
    assert reason_of([raw, frame]) in ("bad_header", "bad_shape", "bad_type")
