"""Integer codes with a step for each block compared with their definition, number by number in
float64, on every available backend, and kernels with the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import OpsError, get_backend
from tests.ops.cpu.narrow import passes_with_narrow_vectors

BLOCK = {8: 256, 4: 128}
MOST = {8: 127, 4: 7}
SIZES = [0, 1, 2, 127, 128, 129, 256, 257, 1000]
each_width = pytest.mark.parametrize("bits", [8, 4])


@pytest.fixture(params=["numpy", "cpu"])
def backend(request):
    return get_backend(request.param)


def drawn(size, seed=1):
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


@each_width
@pytest.mark.parametrize("size", SIZES)
def test_each_number_is_the_nearest_multiple_of_its_block_s_step(backend, bits, size):
    x = drawn(size)
    codes, steps = backend.scaled_encode(x, np.zeros_like(x), bits)
    assert codes.nbytes == math.ceil(size * bits / 8)
    assert steps.nbytes == 4 * math.ceil(size / BLOCK[bits])
    decoded = backend.scaled_decode(codes, steps, bits, x.shape)
    for low in range(0, size, BLOCK[bits]):
        part = x[low : low + BLOCK[bits]].astype(np.float64)
        step = np.abs(part).max() / MOST[bits]
        whole = decoded[low : low + BLOCK[bits]] / step
        np.testing.assert_allclose(whole, np.rint(whole), atol=1e-4)
        assert np.abs(decoded[low : low + BLOCK[bits]] - part).max() <= step * 0.5001


def made_of(backend, x, error, bits):
    """Codes, steps, the rest and the decoded numbers."""
    rest = error.copy()
    codes, steps = backend.scaled_encode(x, rest, bits)
    return codes, steps, rest, backend.scaled_decode(codes, steps, bits, x.shape)


@each_width
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [1.0, 1e-44, 5e37])
def test_kernels_and_the_reference_give_equal_codes(bits, threads, size, scale):
    x = drawn(size) * np.float32(scale)
    error = drawn(size, 2) * np.float32(scale / 10)
    if size > 200:
        x[[5, 150]] = math.nan, math.inf
    ours = made_of(get_backend("cpu", threads=threads), x, error, bits)
    theirs = made_of(get_backend("numpy"), x, error, bits)
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found, expected)


@each_width
def test_the_decoded_numbers_and_the_remaining_error_add_up_to_the_input(backend, bits):
    error = np.zeros((3, 100), np.float32)
    told = np.zeros((3, 100))
    meant = np.zeros((3, 100))
    for seed in range(20):
        x = drawn(300, seed).reshape(3, 100)
        told += backend.scaled_decode(*backend.scaled_encode(x, error, bits), bits, x.shape)
        meant += x
    np.testing.assert_allclose(told + error, meant, rtol=0, atol=1e-5)


@each_width
def test_a_block_of_zeros_stays_zero(backend, bits):
    error = np.zeros(200, np.float32)
    codes, steps = backend.scaled_encode(np.zeros(200, np.float32), error, bits)
    assert not backend.scaled_decode(codes, steps, bits, (200,)).any()
    assert not error.any()


@each_width
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 40, 298])
def test_infinities_and_nan_are_not_hidden(backend, bits, bad, place):
    x = drawn(299)
    x[place] = bad
    error = np.zeros_like(x)
    decoded = backend.scaled_decode(*backend.scaled_encode(x, error, bits), bits, x.shape)
    assert not np.isfinite(decoded[place])
    assert not np.isfinite(error[place])


def test_arrays_that_do_not_fit_are_refused_in_words(backend):
    x = drawn(300)
    codes, steps = backend.scaled_encode(x, np.zeros_like(x), 8)
    for call, text in (
        (lambda: backend.scaled_encode(x, np.zeros(3, np.float32), 8), "error has shape"),
        (lambda: backend.scaled_encode(x, np.zeros_like(x), 5), "bits"),
        (lambda: backend.scaled_decode(codes[:-1], steps, 8, (300,)), "codes has shape"),
        (lambda: backend.scaled_decode(codes, steps[:1], 8, (300,)), "steps has shape"),
        (lambda: backend.scaled_decode(codes, codes, 8, (300,)), "steps is uint8"),
        (lambda: backend.scaled_decode(steps, steps, 8, (300,)), "codes is float32"),
        (lambda: backend.scaled_decode(codes, steps, 4, (300,)), "codes has shape"),
    ):
        with pytest.raises(OpsError, match=text):
            call()


@pytest.mark.slow
@pytest.mark.parametrize("width", [256, 128])
def test_vectors_of_fewer_bits_give_the_same_codes(width):
    passes_with_narrow_vectors("tests/ops/test_scaled_codes.py", "cpu or kernels", width)
