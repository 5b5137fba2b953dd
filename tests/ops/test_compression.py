"""Compressed forms of arrays compared with their definitions, number by number in float64, on every
available backend.

bfloat16 and float16 round to the nearest number of the format. One bit and threshold follow the
papers' formulas.
"""

from __future__ import annotations

import functools
import math
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ops import Array, Backend, OpsError, get_backend
from tests.ops.cpu.narrow import passes_with_narrow_vectors

BACKENDS = {"numpy": {}, "cpu": {"threads": 1}, "cpu, two threads": {"threads": 2}}
SHAPES = [
    (),
    (0,),
    (1,),
    (7,),
    (15,),
    (33,),
    (3, 5),
    (20, 1, 5, 5),
    (50, 20, 5, 5),
    (64, 17),
    (4099,),
    (0, 3),
]
EDGES = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    65504.0,
    65519.9,
    65520.0,
    -7e4,
    6.1e-5,
    6e-8,
    2.9e-8,
    1e-45,
    3.4e38,
]
HALF_SPACING = {"float16": 11, "bfloat16": 8}  # bits of the significand, the hidden one included


@functools.cache
def made(name: str) -> Backend:
    return get_backend(name.partition(",")[0], **BACKENDS[name])


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return made(request.param)


def drawn(shape: tuple[int, ...], seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.standard_normal(shape) * 10.0 ** rng.uniform(-6, 2, shape), np.float32)


def nans(shape: tuple[int, ...], dtype: object = np.float32) -> Array:
    made = np.empty(shape, dtype)
    made.reshape(-1).view(np.uint8)[...] = 0xFF
    return made


def nearest(x: float, kind: str) -> float:
    """The nearest number of the format, or the even one of two, in exact arithmetic."""
    if not math.isfinite(x) or x == 0:
        return x
    least, largest = {"float16": (-14, 65520.0), "bfloat16": (-126, math.ldexp(511, 119))}[kind]
    exponent = max(math.frexp(x)[1] - 1, least)
    unit = math.ldexp(1.0, exponent - HALF_SPACING[kind] + 1)
    rounded = round(x / unit) * unit  # Python's round takes the even one of two
    return math.copysign(math.inf if abs(rounded) >= largest else abs(rounded), x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", HALF_SPACING)
def test_two_bytes_are_the_nearest_number_of_the_format_and_are_read_back_exactly(
    kind, shape, backend
):
    x = drawn(shape)
    bits = backend.half_encode(x, kind, nans(shape, np.float16 if kind == "float16" else np.uint16))
    found = backend.half_decode(bits, nans(shape))
    expected = [nearest(float(value), kind) for value in x.flat]
    np.testing.assert_array_equal(found.reshape(-1), np.asarray(expected, np.float32))
    assert found.shape == bits.shape == shape
    np.testing.assert_array_equal(backend.half_decode(backend.half_encode(x, kind)), found)


@pytest.mark.parametrize("kind", HALF_SPACING)
def test_two_bytes_keep_infinities_and_nan_and_round_at_the_edges_of_their_range(kind, backend):
    payloads = [
        0x7F800001,
        0x7FFFFFFF,
        0xFFFFFFFF,
        0xFF800001,
        0x7FC00000,
        0x7F7FFFFF,
        0x00000001,
        0x3F808000,
        0x3F818000,
    ]
    x = np.array([*EDGES * 3, *np.array(payloads, np.uint32).view(np.float32)], np.float32)
    found = backend.half_decode(backend.half_encode(x, kind))
    np.testing.assert_array_equal(found, np.array([nearest(float(v), kind) for v in x], np.float32))
    np.testing.assert_array_equal(np.signbit(found[~np.isnan(x)]), np.signbit(x[~np.isnan(x)]))


@pytest.mark.parametrize("kind", HALF_SPACING)
def test_every_number_of_two_bytes_is_encoded_as_itself(kind, backend):
    every = np.arange(1 << 16, dtype=np.uint16)
    bits = every.view(np.float16) if kind == "float16" else every
    x = backend.half_decode(bits)
    again = backend.half_encode(x, kind)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(again.view(np.uint16)[number], every[number])
    assert np.isnan(backend.half_decode(again)[~number]).all()
    words = [struct.unpack("<e", struct.pack("<H", n))[0] for n in range(0, 1 << 16, 97)]
    if kind == "float16":
        np.testing.assert_array_equal(x[::97], np.array(words, np.float32))


@pytest.mark.parametrize(("kind", "bound"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_the_relative_error_of_two_bytes_stays_in_its_bound(kind, bound, backend):
    x = np.asarray(np.random.default_rng(2).uniform(6.2e-5, 65000, 5000), np.float32)
    found = backend.half_decode(backend.half_encode(x, kind)).astype(np.float64)
    assert float(np.abs(found / x - 1).max()) <= bound
    tiny = np.asarray(np.random.default_rng(3).uniform(-6.1e-5, 6.1e-5, 5000), np.float32)
    if kind == "float16":
        assert (
            float(
                np.abs(
                    backend.half_decode(backend.half_encode(tiny, kind)).astype(np.float64) - tiny
                ).max()
            )
            <= 2.0**-25
        )


def by_hand_one_bit(values: list[float], block: int) -> tuple[list[float], list[list[float]]]:
    """Decoded numbers and means by Seide et al., with blocks instead of columns."""
    decoded = []
    means = []
    for start in range(0, len(values), block):
        part = values[start : start + block]
        kinds = [[v for v in part if not v < 0], [v for v in part if v < 0]]
        means.append([math.fsum(kind) / len(kind) if kind else 0.0 for kind in kinds])
        decoded += [means[-1][1] if v < 0 else means[-1][0] for v in part]
    return decoded, means


@pytest.mark.parametrize("block", [32, 96, 256, 4096])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_bit_is_the_mean_of_each_sign_in_each_block_and_the_error_is_the_rest(
    shape, block, backend
):
    x = drawn(shape)
    error = drawn(shape, 2)
    values = [float(v) for v in (x + error).flat]
    signs, means = backend.one_bit_encode(x, error, block)
    decoded = backend.one_bit_decode(signs, means, shape, nans(shape))
    expected, expected_means = by_hand_one_bit(values, block)
    scale = max(map(abs, values), default=1.0)
    np.testing.assert_allclose(means.reshape(-1), np.reshape(expected_means, -1), rtol=1e-6)
    np.testing.assert_allclose(decoded.reshape(-1), expected, rtol=1e-6)
    np.testing.assert_allclose(
        error.reshape(-1), np.subtract(values, expected), rtol=0, atol=1e-6 * scale
    )
    assert decoded.shape == error.shape == shape
    bits = [sign for row in np.unpackbits(signs, axis=1, bitorder="little") for sign in row]
    assert bits[: x.size] == [0 if v < 0 else 1 for v in values]
    assert not any(bits[x.size :])


def test_signs_of_few_numbers_take_few_bytes(backend):
    for size, expected in ((0, (0, 4)), (1, (1, 4)), (33, (1, 8)), (256, (1, 32)), (257, (2, 32))):
        signs, means = backend.one_bit_encode(drawn((size,)), np.zeros(size, np.float32), 256)
        assert signs.shape == expected
        assert means.shape == (expected[0], 2)


def test_bits_and_codes_do_not_depend_on_the_number_of_threads():
    x = drawn((50, 20, 5, 5))
    found = []
    for name in ("cpu", "cpu, two threads", "cpu"):
        ours = made(name)
        error = drawn(x.shape, 2)
        other = error.copy()
        arrays = [
            *ours.one_bit_encode(x, error, 96),
            *ours.threshold_encode(x, other, 0.01),
            error,
            other,
        ]
        found.append([array.tobytes() for array in arrays])
    assert found[0] == found[1] == found[2]


TAU = 0.25


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_threshold_sends_tau_with_its_sign_for_each_number_beyond_it_and_keeps_the_rest(
    shape, backend
):
    x = drawn(shape)
    error = drawn(shape, 2)
    values = [float(v) for v in (x + error).flat]
    codes, steps = backend.threshold_encode(x, error, TAU)
    assert codes.tolist() == [2 * n + (v < 0) for n, v in enumerate(values) if abs(v) > TAU]
    assert steps.tolist() == [TAU]
    sent = [math.copysign(TAU, v) if abs(v) > TAU else 0.0 for v in values]
    np.testing.assert_array_equal(
        backend.threshold_decode(codes, steps, shape, nans(shape)).reshape(-1), sent
    )
    np.testing.assert_allclose(error.reshape(-1), np.subtract(values, sent), rtol=1e-6)


def test_a_number_at_the_threshold_is_kept(backend):
    x = np.array([TAU, -TAU, np.nextafter(np.float32(TAU), np.float32(1)), 0.0], np.float32)
    error = np.zeros_like(x)
    codes, _ = backend.threshold_encode(x, error, TAU)
    assert codes.tolist() == [4]
    assert error[:2].tolist() == [TAU, -TAU]


finite = npst.arrays(
    np.float32, st.integers(0, 70), elements=st.floats(-1e3, 1e3, width=32, allow_subnormal=False)
)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("method", ["one_bit", "threshold"])
@settings(max_examples=60, deadline=None)
@given(
    first=finite,
    rounds=st.integers(1, 5),
    block=st.sampled_from([32, 64]),
    tau=st.sampled_from([0.01, 1.0, 50.0]),
)
def test_the_decoded_numbers_and_the_remaining_error_add_up_to_the_input(
    name, method, first, rounds, block, tau
):
    backend = made(name)
    size = len(first)
    error = np.zeros(size, np.float32)
    given_in = np.zeros(size)
    told = np.zeros(size)
    largest = 1.0
    for step in range(rounds):
        x = np.roll(first, step) * np.float32((-1) ** step)
        if method == "one_bit":
            decoded = backend.one_bit_decode(*backend.one_bit_encode(x, error, block), x.shape)
        else:
            decoded = backend.threshold_decode(*backend.threshold_encode(x, error, tau), x.shape)
        given_in += x
        told += decoded
        largest = max(largest, float(np.abs(error).max(initial=0)), float(np.abs(x).max(initial=0)))
    np.testing.assert_allclose(
        told + error, given_in, rtol=0, atol=rounds * 3 * 2.0**-24 * 4 * largest
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 40, 98])
def test_infinities_and_nan_are_not_hidden(bad, place, backend):
    x = drawn((99,))
    x[place] = bad
    for decoded in (
        backend.one_bit_decode(*backend.one_bit_encode(x, np.zeros_like(x), 32), x.shape),
        backend.threshold_decode(*backend.threshold_encode(x, np.zeros_like(x), TAU), x.shape),
        backend.half_decode(backend.half_encode(x, "bfloat16")),
        backend.half_decode(backend.half_encode(x, "float16")),
    ):
        assert not np.isfinite(decoded[place])
    error = np.zeros_like(x)
    backend.one_bit_encode(x, error, 32)
    assert not np.isfinite(error[place])


def test_arrays_that_do_not_fit_are_refused_in_words(backend):
    x = drawn((40,))
    error = np.zeros(40, np.float32)
    signs, means = backend.one_bit_encode(x, error, 32)
    codes, steps = backend.threshold_encode(x, error, TAU)
    frozen = error.copy()
    frozen.flags.writeable = False
    for call, text in (
        (lambda: backend.half_encode(x, "float8"), "expected one of 'bfloat16', 'float16'"),
        (
            lambda: backend.half_encode(x.astype(np.float64), "float16"),
            "x is float64, expected float32",
        ),
        (lambda: backend.half_encode(x[::2], "float16"), "expected C order"),
        (lambda: backend.half_decode(x), "bits is float32, expected float16, or uint16"),
        (
            lambda: backend.half_encode(x, "float16", np.empty(40, np.uint16)),
            "out is uint16, expected float16",
        ),
        (lambda: backend.one_bit_encode(x, error[1:], 32), "error has shape"),
        (lambda: backend.one_bit_encode(x, frozen, 32), "error is read-only"),
        (lambda: backend.one_bit_encode(x, error, 33), "block is 33, expected a multiple of 32"),
        (lambda: backend.one_bit_encode(x, error, 0), "block is 0, expected a multiple of 32"),
        (lambda: backend.one_bit_decode(signs, means, (65,)), "does not hold 65 numbers"),
        (lambda: backend.one_bit_decode(signs, means, (32,)), "does not hold 32 numbers"),
        (
            lambda: backend.one_bit_decode(signs[:, :3].copy(), means, (40,)),
            "does not hold 40 numbers",
        ),
        (lambda: backend.one_bit_decode(signs[:0], means[:0], (40,)), "does not hold 40 numbers"),
        (lambda: backend.one_bit_decode(signs, means[:1], (40,)), "means has shape"),
        (lambda: backend.one_bit_decode(means, signs, (40,)), "signs is float32"),
        (lambda: backend.threshold_encode(x, error, 0.0), "tau is 0.0"),
        (lambda: backend.threshold_encode(x, error, math.nan), "tau is nan"),
        (lambda: backend.threshold_encode(x, error, 1e300), "tau is 1e"),
        (
            lambda: backend.threshold_decode(codes, steps, (3,)),
            ("codes has index .*, expected less than 3"),
        ),
        (
            lambda: backend.threshold_decode(np.full(1, 80, np.uint32), steps, (40,)),
            "index 40, expected less than 40",
        ),
        (lambda: backend.threshold_decode(codes.astype(np.int64), steps, (40,)), "codes is int64"),
        (lambda: backend.threshold_decode(codes, steps[:0], (40,)), "steps has shape"),
    ):
        with pytest.raises(OpsError, match=text):
            call()


def test_with_destinations_given_the_kernels_allocate_nothing_but_codes():
    ours = made("cpu")
    x = drawn((50, 20, 5, 5))
    error = np.zeros((50, 20, 5, 5), np.float32)
    y = np.empty((50, 20, 5, 5), np.float32)
    half = np.empty(x.shape, np.float16)
    bits = np.empty(x.shape, np.uint16)
    signs, means = ours.one_bit_encode(x, error, 256)

    def everything() -> None:
        ours.half_decode(ours.half_encode(x, "float16", half), y)
        ours.half_decode(ours.half_encode(x, "bfloat16", bits), y)
        ours.one_bit_encode(x, error, 256, signs, means)
        ours.one_bit_decode(signs, means, x.shape, y)
        error[...] = 0
        ours.threshold_decode(*ours.threshold_encode(x, error, 1e3), x.shape, y)

    def allocated() -> int:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            everything()
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    everything()
    # Memory for blocks of arguments; the arrays here have 50 KB and more. The least of three
    # measurements counts, since other threads allocate too.
    assert min(allocated() for _ in range(3)) < 6144


@pytest.mark.slow
@pytest.mark.parametrize("width", [256, 128])
def test_vectors_of_fewer_bits_encode_the_same(width):
    passes_with_narrow_vectors("tests/ops/test_compression.py", "cpu", width)
