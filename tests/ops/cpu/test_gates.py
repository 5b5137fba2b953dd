"""The CPU backend's swish and GELU over the whole range of float32, compared with `math.erfc` and
float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import get_backend
from ops.errors import BFLOAT16

FAR = np.array([-np.inf, -3e38, -200.0, 200.0, 3e38, np.inf], np.float32)


@pytest.fixture(scope="module")
def fast():
    return get_backend("cpu", threads=1)


def near():
    return np.linspace(-13, 13, 40_001, dtype=np.float32)


def test_gelu_keeps_its_digits_also_where_it_is_tiny(fast):
    x = near()
    expected = np.array([each * 0.5 * math.erfc(-each / math.sqrt(2)) for each in x.tolist()])
    # the last bits of x^2 / 2 are part of the exponent's error, far from 0
    allowed = np.abs(expected) * (6e-7 + 1.2e-7 * x.astype(np.float64) ** 2) + 1e-37
    assert np.all(np.abs(fast.gelu_forward(x) - expected) <= allowed)


def test_the_derivative_of_gelu_is_that_of_float64(fast):
    x = near()
    wide = x.astype(np.float64)
    upper = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in wide.tolist()])
    expected = upper + wide * np.exp(-(wide**2) / 2) / math.sqrt(2 * math.pi)
    found = fast.gelu_backward(np.ones_like(x), x)
    assert np.abs(found - expected).max() < 5e-7


def test_gelu_of_bfloat16_numbers_errs_by_little_more_than_their_rounding(fast):
    x = near().astype(BFLOAT16)
    wide = x.astype(np.float64)
    upper = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in wide.tolist()])
    density = np.exp(-(wide**2) / 2) / math.sqrt(2 * math.pi)
    half_a_place = 2.0**-8
    for found, expected, error in (
        (fast.gelu_forward(x), wide * upper, 1e-5),
        (fast.gelu_backward(np.ones_like(x), x), upper + wide * density, 2e-5),
    ):
        assert np.all(np.abs(found - expected) <= half_a_place * np.abs(expected) + error)


def test_far_from_zero_a_gelu_of_bfloat16_numbers_is_shut_or_open(fast):
    x = FAR.astype(BFLOAT16)
    y = fast.gelu_forward(x)
    assert np.all(y[1:3] == 0)
    assert np.array_equal(y[3:], x[3:])
    assert np.array_equal(fast.gelu_backward(np.ones_like(x), x)[3:], [1, 1, 1])
    nan = np.full(40, np.nan, BFLOAT16)
    assert np.isnan(fast.gelu_forward(nan)).all()
    assert np.isnan(fast.gelu_backward(np.ones_like(nan), nan)).all()


@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0])
def test_swish_is_that_of_float64(beta, fast):
    x = near()
    wide = x.astype(np.float64)
    gate = 1 / (1 + np.exp(-beta * wide))
    error = np.abs(fast.swish_forward(x, beta) - wide * gate)
    assert np.all(error <= 3e-7 * np.maximum(1, np.abs(wide)))
    slope = gate + wide * beta * gate * (1 - gate)
    assert np.abs(fast.swish_backward(np.ones_like(x), x, beta) - slope).max() < 1e-6


@pytest.mark.parametrize("name", ["gelu", "swish"])
def test_far_from_zero_a_gate_is_shut_or_open(name, fast):
    y = getattr(fast, f"{name}_forward")(FAR)
    assert np.all(y[1:3] == 0)  # minus infinity times a shut gate is NaN, as in the reference
    assert np.array_equal(y[3:], FAR[3:])
    slope = getattr(fast, f"{name}_backward")(np.ones_like(FAR), FAR)
    assert np.array_equal(slope, [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("name", ["gelu", "swish"])
def test_nan_stays_nan(name, fast):
    x = np.full(40, np.nan, np.float32)
    assert np.isnan(getattr(fast, f"{name}_forward")(x)).all()
    assert np.isnan(getattr(fast, f"{name}_backward")(np.ones_like(x), x)).all()
