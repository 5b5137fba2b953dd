"""Pooling: properties that the contract of the backends does not cover."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Backend, OpsError, PoolGeometry


@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_a_window_without_a_finite_maximum_shows_it_and_keeps_its_argmax_in_the_plane(
    bad, backend: Backend
):
    g = PoolGeometry((3, 3), (2, 2), (1, 1))
    x = np.full((1, 2, 5, 5), bad)
    y, argmax = backend.pool_forward(x, g)
    np.testing.assert_array_equal(y, np.full(y.shape, bad))
    assert argmax is not None and argmax.min() >= 0 and argmax.max() < 25


def test_one_nan_makes_its_window_nan(backend: Backend):
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    x[0, 0, 0, 1] = np.nan
    y, _ = backend.pool_forward(x, PoolGeometry((2, 2), (2, 2)))
    np.testing.assert_array_equal(y, [[[[np.nan, 7.0], [13.0, 15.0]]]])


X = np.zeros((2, 3, 6, 6))
G = PoolGeometry((2, 2), (2, 2))
DY = np.zeros((2, 3, 3, 3))
PLACE = np.zeros((2, 3, 3, 3), np.int32)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b: b.pool_forward(X[0], G), ["x has shape (3, 6, 6)"]),
        (
            lambda b: b.pool_forward(X, G, out=X),
            ["out has shape (2, 3, 6, 6)", "expected (2, 3, 3, 3)"],
        ),
        (
            lambda b: b.pool_forward(X, G, argmax=PLACE.astype(np.int64)),
            ["argmax is int64", "int32"],
        ),
        (lambda b: b.pool_backward(DY, G, X.shape), ["argmax is missing"]),
        (lambda b: b.pool_backward(DY, G, X.shape, PLACE.astype(np.int64)), ["argmax is int64"]),
        (lambda b: b.pool_backward(DY, G, X.shape, PLACE[:1]), ["argmax has shape (1, 3, 3, 3)"]),
        (lambda b: b.pool_backward(DY[:1], G, X.shape, PLACE), ["dy has shape (1, 3, 3, 3)"]),
        (lambda b: b.pool_backward(DY, G, (6, 6), PLACE), ["(6, 6)", "(N, C, H, W)"]),
    ],
)
def test_pooling_refuses_malformed_input_and_reports_the_found_values(
    call, words, backend: Backend
):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)
