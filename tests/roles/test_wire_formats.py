"""Gradients as they travel: the numbers that each format keeps, each sender's own error, and the
arrays that a receiver refuses."""

from __future__ import annotations

import numpy as np
import pytest

import ops
from ops import Array
from roles.formats.format import FORMATS
from roles.learning.wire_formats import Wire, WireFormat
from runtime.errors import MessageError

OPS = ops.get_backend("numpy")
SHAPES = {"conv": ((6, 3, 5, 5), (6,)), "norm": ((7,), (7,), (1,))}
LAYERS = {
    "conv": [(list(shape), True) for shape in SHAPES["conv"]],
    "norm": [(list(shape), False) for shape in SHAPES["norm"]],  # running statistics
}
FEEDBACK = ("int8", "int4", "one-bit", "threshold")


def wire(name: str = "float32") -> Wire:
    return Wire(LAYERS, OPS, WireFormat(name, {"block": 64, "tau": 0.5}))


def drawn(layer: str, seed: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[layer])


def test_float32_travels_as_it_is_and_nothing_is_copied() -> None:
    blobs = drawn("conv", 1)
    formats, arrays = wire().encode("conv", blobs)
    assert formats == ("float32", "float32")
    assert arrays is blobs
    assert all(
        one is other
        for one, other in zip(wire().decode("conv", formats, arrays), blobs, strict=True)
    )


@pytest.mark.parametrize("name", FORMATS)
def test_running_statistics_always_travel_as_float32(name: str) -> None:
    blobs = drawn("norm", 1)
    formats, arrays = wire(name).encode("norm", blobs)
    assert formats == ("float32",) * 3
    assert all(one is other for one, other in zip(arrays, blobs, strict=True))


def test_in_double_precision_everything_travels_as_it_is_and_nothing_else_is_taken() -> None:
    for layer in SHAPES:
        blobs = tuple(blob.astype(np.float64) for blob in drawn(layer, 1))
        formats, arrays = wire("float64").encode(layer, blobs)
        assert formats == ("float64",) * len(blobs)
        assert arrays is blobs
        assert all(
            one is other
            for one, other in zip(
                wire("float64").decode(layer, formats, arrays), blobs, strict=True
            )
        )
    for name in FORMATS:
        with pytest.raises(MessageError, match=f"in the formats {name}"):
            wire("float64").decode("conv", *wire(name).encode("conv", drawn("conv", 1)))
    with pytest.raises(MessageError, match=r"found float32 of shape .*, expected float64"):
        wire("float64").decode("conv", ("float64",) * 2, drawn("conv", 1))


@pytest.mark.parametrize(
    ("name", "bound"), [("float32", 0.0), ("float16", 2.0**-11), ("bfloat16", 2.0**-8)]
)
def test_formats_without_an_error_round_each_number_within_their_bound(
    name: str, bound: float
) -> None:
    blobs = drawn("conv", 1)
    found = wire().decode("conv", *wire(name).encode("conv", blobs))
    for one, blob in zip(found, blobs, strict=True):
        assert one.dtype == np.float32
        assert one.shape == blob.shape
        assert np.all(
            np.abs(one - blob.astype(np.float64)) <= bound * np.abs(blob) + 2.0**-25 * (bound > 0)
        )


@pytest.mark.parametrize(
    ("name", "left"), [("int8", 0.02), ("int4", 0.3), ("one-bit", 0.02), ("threshold", 0.5 + 1e-5)]
)
def test_the_error_of_a_format_is_sent_later_layer_by_layer_and_blob_by_blob(
    name: str, left: float
) -> None:
    layers = {**LAYERS, "more": LAYERS["conv"]}
    sender, receiver = (
        Wire(layers, OPS, WireFormat(n, {"block": 64, "tau": 0.5})) for n in (name, "float32")
    )
    told = {layer: [np.zeros(shape) for shape in SHAPES["conv"]] for layer in ("conv", "more")}
    meant = {layer: [np.zeros(shape) for shape in SHAPES["conv"]] for layer in ("conv", "more")}
    # five gradients, with the layers taking turns as in training; after that only the stored errors
    # are sent
    for step in range(100):
        for number, layer in enumerate(told):
            blobs = [blob * np.float32(step < 5) for blob in drawn("conv", 10 * number + step)]
            for n, blob in enumerate(receiver.decode(layer, *sender.encode(layer, tuple(blobs)))):
                told[layer][n] += blob
                meant[layer][n] += blobs[n]
    for layer, sums in told.items():
        for one, right in zip(sums, meant[layer], strict=True):
            np.testing.assert_allclose(one, right, rtol=0, atol=left)
    assert repr(sender) == f"<gradients of 3 layers, sent as {name}, <4 errors kept>>"


@pytest.mark.parametrize("name", FEEDBACK)
def test_senders_keep_their_own_errors(name: str) -> None:
    blobs = drawn("conv", 1)
    one = wire(name)
    other = wire(name)
    first = [array.tobytes() for array in one.encode("conv", blobs)[1]]
    again = [array.tobytes() for array in one.encode("conv", blobs)[1]]
    assert again != first
    assert [array.tobytes() for array in other.encode("conv", blobs)[1]] == first


@pytest.mark.parametrize("name", FORMATS)
def test_an_encoded_gradient_is_not_written_to(name: str) -> None:
    blobs = drawn("conv", 1)
    for blob in blobs:
        blob.flags.writeable = False
    formats, arrays = wire(name).encode("conv", blobs)
    for array in arrays:
        array.flags.writeable = False  # received arrays are read-only too
    wire().decode("conv", formats, arrays)
    np.testing.assert_array_equal(blobs[0], drawn("conv", 1)[0])


def test_arrays_that_do_not_fit_their_layer_are_refused() -> None:
    plain, half, bit, far = (wire(name).encode("conv", drawn("conv", 1))[1] for name in
                             ("float32", "float16", "one-bit", "threshold"))  # fmt: skip
    beyond = (np.array([2 * 450], np.uint32), *far[1:])
    for layer, formats, arrays, text in (
        (
            "pool",
            ("float32", "float32"),
            plain,
            ("bad_value: a gradient of layer 'pool', expected conv, norm"),
        ),
        (
            "conv",
            ("float32",),
            plain[:1],
            ("bad_shape: .*1 arrays for 2 blobs in the formats float32"),
        ),
        ("conv", ("float32", "float64"), plain, "bad_shape: .*formats float32, float64"),
        ("conv", ("float32", "float32"), plain[:1], "bad_shape: .*1 arrays for 2 blobs"),
        ("conv", ("float32", "float32"), (*plain, plain[0]), "bad_shape: .*3 arrays for 2 blobs"),
        (
            "conv",
            ("float32", "float32"),
            plain[::-1],
            (r"found float32 of shape \(6,\), " r"expected .* \(6, 3, 5, 5\)"),
        ),
        ("conv", ("float16", "float16"), plain, "found float32 of shape .*, expected float16"),
        ("conv", ("bfloat16", "bfloat16"), half, "found float16 of shape .*, expected uint16"),
        ("conv", ("float32", "float32"), half, "found float16 of shape .*, expected float32"),
        (
            "conv",
            ("one-bit", "one-bit"),
            (bit[2], bit[3], bit[0], bit[1]),
            "does not hold 450 numbers",
        ),
        ("conv", ("one-bit", "one-bit"), (*bit[:3], bit[1]), "means has shape"),
        ("conv", ("one-bit", "one-bit"), far, "signs is uint32"),
        ("conv", ("threshold", "threshold"), bit, "codes is uint8"),
        ("conv", ("threshold", "threshold"), beyond, "index 450, expected less than 450"),
        (
            "norm",
            ("float16",) * 3,
            tuple(b.astype(np.float16) for b in drawn("norm", 1)),
            "expected float32",
        ),
    ):
        with pytest.raises(MessageError, match=text):
            wire().decode(layer, formats, arrays)
