"""Envelopes to frames and back: every message comes back equal, and no bytes raise anything but a
MessageError.
"""

from __future__ import annotations

import struct
from typing import Any

import hypothesis.extra.numpy as hnp
import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.errors import MessageError
from runtime.messages import wire
from runtime.messages.arrays import DTYPES, MAX_ARRAYS, MAX_DIMENSIONS
from runtime.messages.message import Array, Envelope, Json, Message, Save, message
from runtime.messages.nesting import MAX_DEPTH


@message
class Parcel(Message):
    number: int
    share: float
    name: str
    sure: bool
    numbers: tuple[int, ...]
    shares: tuple[float, ...]
    names: tuple[str, ...]
    more: Json
    one: Array
    several: tuple[Array, ...]


@message
class Crate(Message):
    blob: Array


@message
class Counted(Message):
    number: int


ORDINARY = {
    "number": 1,
    "share": 0.5,
    "name": "n",
    "sure": True,
    "numbers": (1, 2),
    "shares": (0.5,),
    "names": ("a",),
    "more": {"k": [1, None]},
    "one": np.arange(6, dtype=np.float32).reshape(2, 3),
    "several": (np.ones(2, np.int8),),
}


def envelope(body: Message, **fields: Any) -> Envelope:
    return Envelope(body, 7, "sender", 2, "receiver", **fields)


def there_and_back(body: Message) -> Any:
    return wire.decode([bytes(frame) for frame in wire.encode(envelope(body))]).message


def same(found: Array, sent: Array) -> bool:
    return (
        found.dtype == sent.dtype
        and found.shape == sent.shape
        and found.tobytes() == sent.tobytes()
    )


def header(**changes: Any) -> list[Any]:
    """The header of a good Crate that carries a float32[2, 3], with some places changed."""
    places = {
        "protocol": wire.PROTOCOL,
        "kind": Crate.kind,
        "id": 7,
        "sender": "a",
        "incarnation": 1,
        "receiver": "b",
        "reply_to": "",
        "answers": 0,
        "step": -1,
        "plain": [],
        "arrays": [["float32", [2, 3]]],
    }
    return list({**places, **changes}.values())


def reason_of(frames: list[Any]) -> str:
    with pytest.raises(MessageError) as caught:
        wire.decode(frames)
    assert len(str(caught.value)) < 400  # the text goes to a log
    return caught.value.reason


def reason(head: Any, *frames: bytes) -> str:
    return reason_of([msgpack.packb(head), *frames])


SIX = bytes(24)  # float32[2, 3]
integers = st.integers(-(2**63), 2**64 - 1)
floats = st.floats(allow_nan=False)
texts = st.text(max_size=20)
jsons = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | integers | floats | texts,
        lambda inside: st.lists(inside, max_size=3) | st.dictionaries(texts, inside, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
shapes = hnp.array_shapes(min_dims=0, max_dims=MAX_DIMENSIONS, min_side=0, max_side=3)
arrays = st.sampled_from(sorted(DTYPES)).flatmap(lambda name: hnp.arrays(name, shapes))
parcels = st.builds(
    Parcel,
    number=integers,
    share=floats,
    name=texts,
    sure=st.booleans(),
    numbers=st.lists(integers, max_size=3).map(tuple),
    shares=st.lists(floats, max_size=3).map(tuple),
    names=st.lists(texts, max_size=3).map(tuple),
    more=jsons,
    one=arrays,
    several=st.lists(arrays, max_size=3).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(body=parcels, reply_to=texts, answers=st.integers(0, 2**63), step=st.integers(-1, 2**40))
def test_every_message_comes_back_equal(
    body: Parcel, reply_to: str, answers: int, step: int
) -> None:
    sent = envelope(body, reply_to=reply_to, answers=answers, step=step)
    found = wire.decode([bytes(frame) for frame in wire.encode(sent)])
    for name in ("id", "sender", "incarnation", "receiver", "reply_to", "answers", "step"):
        assert getattr(found, name) == getattr(sent, name)
    assert isinstance(found.message, Parcel)
    assert found.message.plain_values() == body.plain_values()
    assert same(found.message.one, body.one)
    assert all(same(a, b) for a, b in zip(found.message.several, body.several, strict=True))


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (1,) * 8])
def test_arrays_of_every_dtype_keep_their_shape_even_empty_and_without_dimensions(
    dtype: str, shape: tuple[int, ...]
) -> None:
    sent = np.full(shape, 1, dtype)
    assert same(there_and_back(Crate(blob=sent)).blob, sent)


def test_nan_and_infinity_travel_bit_for_bit() -> None:
    sent = np.array([np.nan, -np.inf, -0.0, 5e-324])
    assert same(there_and_back(Crate(blob=sent)).blob, sent)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::2],
        lambda x: x[:, ::-1],
        lambda x: np.broadcast_to(x[0], (4, *x[0].shape)),
    ],
)
def test_views_that_are_not_contiguous_arrive_with_their_values(view: Any) -> None:
    sent = view(np.arange(24, dtype=np.float64).reshape(4, 3, 2))
    np.testing.assert_array_equal(there_and_back(Crate(blob=sent)).blob, sent)


def test_arrays_in_the_byte_order_of_another_machine_arrive_with_the_same_values() -> None:
    sent = np.arange(5, dtype=">f4")
    found = there_and_back(Crate(blob=sent)).blob
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, sent)


def test_a_contiguous_array_is_not_copied_on_either_side_and_the_receiver_cannot_write() -> None:
    sent = np.zeros((100, 100), np.float32)
    frames = wire.encode(envelope(Crate(blob=sent)))
    found = wire.decode(frames).message
    assert isinstance(found, Crate)
    assert np.shares_memory(found.blob, sent)
    assert not found.blob.flags.writeable
    assert sent.flags.writeable
    assert wire.size_of(frames) == len(frames[0]) + sent.nbytes


def test_a_message_without_arrays_has_the_size_of_its_header() -> None:
    (header,) = wire.encode(envelope(Save()))
    assert wire.size_of([header]) == wire.size_of([memoryview(header)]) == len(header) > 20


@pytest.mark.parametrize(
    ("bytes_of_header", "what"),
    [
        (b"", "nothing"),
        (b"\x91" * 60_000, "one list in another, 60 000 deep"),
        (b"\xdd\xff\xff\xff\xff", "array32 of 4 G items"),
        (b"\xdf\xff\xff\xff\xff", "map32 of 4 G items"),
        (b"\xc6\xff\xff\xff\xff", "bin32 of 4 G bytes"),
        (b"\xdb\xff\xff\xff\xff", "str32 of 4 G bytes"),
        (b"\xc9\xff\xff\xff\xff\x01", "ext32 of 4 G bytes"),
        (b"\xc1", "the byte that msgpack never uses"),
        (b"\x9b" + b"\xa1\xff" * 11, "text that is not UTF-8"),
        (b"\x81\x91\x00\x00", "a dict with a list as its key"),
        (b"\x00" * 1000, "surplus bytes"),
        (msgpack.packb({"protocol": 1}), "a dict"),
        (msgpack.packb(header()[:10]), "ten places"),
        (msgpack.packb([*header(), 0]), "twelve places"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "a web browser"),
    ],
)
def test_bytes_that_are_not_a_header_are_a_bad_header(bytes_of_header: bytes, what: str) -> None:
    assert reason_of([bytes_of_header]) == "bad_header", what
    assert reason_of([bytes_of_header, SIX]) == "bad_header", what


def test_a_header_over_the_limit_is_not_parsed() -> None:
    room = wire.MAX_HEADER_BYTES - len(msgpack.packb(header(sender="x" * 1000))) + 1000
    assert wire.decode([msgpack.packb(header(sender="x" * room)), SIX]).sender == "x" * room
    assert reason(header(sender="x" * (room + 1)), SIX) == "bad_header"
    assert reason_of([b"\x91" * 100_000]) == "bad_header"


def test_no_frames_and_a_thousand_empty_frames_are_bad_headers() -> None:
    assert reason_of([]) == "bad_header"
    assert reason_of([b""] * 1000) == "bad_header"
    assert reason(header(), *[b""] * 1000) in ("bad_header", "bad_shape")
    assert reason(header(), *[b""] * (MAX_ARRAYS + 1)) == "bad_header"


@pytest.mark.parametrize("version", [0, 1, 3, -1, "2", None, [2], 2**63])
def test_another_protocol_version_is_named_as_such(version: Any) -> None:
    assert reason(header(protocol=version), SIX) == "wrong_version"


@pytest.mark.parametrize("version", [2.0])
def test_a_version_of_another_type_is_a_bad_header(version: Any) -> None:
    assert reason(header(protocol=version), SIX) == "bad_header"


@pytest.mark.parametrize(
    "place",
    [
        "kind",
        "id",
        "sender",
        "incarnation",
        "receiver",
        "reply_to",
        "answers",
        "step",
        "plain",
        "arrays",
    ],
)
@pytest.mark.parametrize("value", [None, 1.5, True, {}, b"", ()])
def test_a_place_of_the_wrong_type_is_a_bad_header(place: str, value: Any) -> None:
    if not (value == () and place == "plain"):
        assert reason(header(**{place: value}), SIX) == "bad_header"


def test_a_kind_that_is_not_declared_is_unknown() -> None:
    assert reason(header(kind="package.Nothing"), SIX) == "unknown_kind"
    assert reason(header(kind=""), SIX) == "unknown_kind"


@pytest.mark.parametrize("plain", [[], [1, 2], {"number": 1}, "1"])
def test_the_wrong_number_of_plain_values_is_a_bad_header(plain: Any) -> None:
    assert reason(header(kind=Counted.kind, plain=plain, arrays=[])) == "bad_header"


WRONG = {
    "number": ["1", 1.0, True, None, [1]],
    "share": ["0.5", None, True, {}],
    "name": [1, None, b"", ["n"]],
    "sure": [1, 0, "true", None],
    "numbers": [1, [1.5], ["1"], [True], [[1]], {}],
    "shares": [0.5, ["0.5"], [None]],
    "names": ["ab", [1], [b""]],
    "more": [[], "x", {b"": 1}, None],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_plain_value_of_the_wrong_type_is_a_bad_type(field: str, value: Any) -> None:
    frames = wire.encode(envelope(Parcel(**ORDINARY)))  # type: ignore[arg-type]
    head = msgpack.unpackb(frames[0])
    place = [plain.name for plain in Parcel.plain_fields].index(field)
    head[9][place] = value
    assert reason(head, *map(bytes, frames[1:])) == "bad_type"


@pytest.mark.parametrize(
    "dtype", ["object", "O", "float128", "complex64", "U5", "", "f4", "<f4", None, 4, ["float32"]]
)
def test_a_dtype_that_is_not_on_the_list_is_a_bad_type(dtype: Any) -> None:
    assert reason(header(arrays=[[dtype, [2, 3]]]), SIX) == "bad_type"


@pytest.mark.parametrize(
    "shape",
    [
        [2**40, 2**40], [2**63, 2], [2**64 - 1], [-1, -6], [-2, -3], [2.0, 3.0], [2, 3.0], [True, 6], ["2", 3], [None],
        [1] * 9, [6, 1] * 5, [2, 4], [5], [], [[2, 3]], [0, 3], [0, 2**62], [0, 2**64 - 1], [2**62, 0, 2**62],
    ],
)  # fmt: skip
@pytest.mark.parametrize("frame", [SIX, b""])
def test_a_shape_that_the_frame_does_not_fill_is_a_bad_shape(
    shape: list[Any], frame: bytes
) -> None:
    if shape != [0, 3] or frame:  # an empty array in an empty frame is legal
        assert reason(header(arrays=[["float32", shape]]), frame) == "bad_shape"


@pytest.mark.parametrize(
    "descriptor", [None, 1, "float32", [], ["float32"], ["float32", 6], ["float32", [6], 0], {}]
)
def test_a_malformed_descriptor_is_a_bad_shape(descriptor: Any) -> None:
    assert reason(header(arrays=[descriptor]), SIX) == "bad_shape"


def test_too_few_and_too_many_frames_or_descriptors_are_bad_headers() -> None:
    one = ["float32", [2, 3]]
    assert reason(header()) == "bad_header"
    assert reason(header(), SIX, SIX) == "bad_header"
    assert reason(header(arrays=[]), SIX) == "bad_header"
    assert reason(header(arrays=[one, one]), SIX) == "bad_header"
    assert reason(header(arrays=[one, one]), SIX, SIX) == "bad_header"


@pytest.mark.parametrize("count", [-1, 3, 2**40, 1.0, True, None, "1", [1]])
def test_a_count_of_arrays_that_no_frames_match_is_a_bad_header(count: Any) -> None:
    frames = wire.encode(envelope(Parcel(**ORDINARY)))  # type: ignore[arg-type]
    head = msgpack.unpackb(frames[0])
    head[10][1] = count
    assert reason(head, *map(bytes, frames[1:])) == "bad_header"


@pytest.mark.parametrize("depth", [20, 400, 900, 1000, 1015])
def test_values_nested_too_deep_are_a_bad_header_and_never_a_recursion_error(depth: int) -> None:
    head = header(kind=Counted.kind, plain=None, arrays=[])
    raw = msgpack.packb(head).replace(b"\xc0\x90", b"\x91" * depth + b"\x90" + b"\x90")
    assert raw != msgpack.packb(head)
    assert reason_of([raw]) == "bad_header"


def test_a_message_that_the_receiver_would_refuse_does_not_leave_the_sender() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH + 1):
        deep = {"k": deep}
    refused = {
        "bad_type": [
            Crate(blob=np.array([object()])),
            Crate(blob=np.zeros(1, complex)),
            Crate(blob=np.array(["text"])),
            Counted(number=2**64),
            Counted(number=object()),
            Parcel(**{**ORDINARY, "more": deep}),  # type: ignore[arg-type]
            Parcel(**{**ORDINARY, "name": "\ud800"}),  # type: ignore[arg-type]
        ],
        "bad_shape": [Crate(blob=np.zeros((1,) * 9))],
        "too_large": [
            Parcel(**{**ORDINARY, "name": "x" * wire.MAX_HEADER_BYTES}),  # type: ignore[arg-type]
            Parcel(**{**ORDINARY, "several": (np.zeros(1),) * MAX_ARRAYS}),  # type: ignore[arg-type]
        ],
    }
    for expected, bodies in refused.items():
        for body in bodies:
            with pytest.raises(MessageError) as caught:
                wire.encode(envelope(body))
            assert caught.value.reason == expected


def test_the_deepest_json_and_the_most_arrays_that_may_leave_arrive() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH - 1):
        deep = {"k": deep}
    several = (np.zeros(1, np.int8),) * (MAX_ARRAYS - 1)
    found = there_and_back(Parcel(**{**ORDINARY, "more": deep, "several": several}))  # type: ignore[arg-type]
    assert found.more == deep
    assert len(found.several) == MAX_ARRAYS - 1


def only_a_message_error(frames: list[bytes]) -> None:
    try:
        found = wire.decode(frames)
    except MessageError as error:
        assert error.reason in (
            "bad_header",
            "wrong_version",
            "unknown_kind",
            "bad_type",
            "bad_shape",
        )
    else:
        repr(found)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=4))
@example([struct.pack(">BI", 0xDD, 2**32 - 1), b""])
def test_random_bytes_never_raise_anything_but_a_message_error(frames: list[bytes]) -> None:
    only_a_message_error(frames)


anything = st.recursive(
    st.none()
    | st.booleans()
    | integers
    | st.floats()
    | texts
    | st.binary(max_size=4)
    | st.sampled_from(["float32", 1]),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=2),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    body=st.sampled_from([Crate(blob=np.ones((2, 3), np.float32)), Parcel(**ORDINARY), Save()]),  # type: ignore[arg-type]
    changes=st.dictionaries(st.integers(0, 10), anything, max_size=2),
    frames=st.none() | st.lists(st.binary(max_size=24), max_size=3),
)
def test_a_good_header_with_any_places_changed_never_raises_anything_but_a_message_error(
    body: Message, changes: dict[int, Any], frames: list[bytes] | None
) -> None:
    good = [bytes(frame) for frame in wire.encode(envelope(body))]
    head = msgpack.unpackb(good[0])
    for place, value in changes.items():
        head[place] = value
    only_a_message_error([msgpack.packb(head), *(good[1:] if frames is None else frames)])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_good_message_with_any_bytes_changed_never_raises_anything_but_a_message_error(
    data: st.DataObject,
) -> None:
    frames = [bytearray(bytes(frame)) for frame in wire.encode(envelope(Parcel(**ORDINARY)))]  # type: ignore[arg-type]
    for _ in range(data.draw(st.integers(1, 3))):
        frames[0][data.draw(st.integers(0, len(frames[0]) - 1))] = data.draw(st.integers(0, 255))
    only_a_message_error([bytes(frame) for frame in frames])
