"""Dense layers: properties that the contract of the backends does not cover."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Array, Backend, OpsError


def loops(a: Array, b: Array) -> Array:
    """a (M, K) times b (K, N), one product at a time."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for m, n, k in np.ndindex(*out.shape, a.shape[1]):
        out[m, n] += float(a[m, k]) * float(b[k, n])
    return out


def test_dense_allocates_and_does_without_a_bias(random, backend: Backend):
    x = random.standard_normal((3, 4))
    w = random.standard_normal((2, 4))
    np.testing.assert_allclose(backend.dense_forward(x, w, None), loops(x, w.T))
    assert backend.dense_backward_weights(x, x[:, :2], bias=False)[1] is None


X = np.zeros((3, 4))
W = np.zeros((2, 4))
DY = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b: b.dense_forward(X[:, :3], W, None), ["x has 3 columns", "expected 4"]),
        (lambda b: b.dense_forward(X[0], W, None), ["x has shape (4,)", "N, D"]),
        (lambda b: b.dense_forward(X, W, W[0]), ["b has shape (4,)", "expected (2,)"]),
        (lambda b: b.dense_forward(X, W, None, out=X), ["out has shape (3, 4)", "expected (3, 2)"]),
        (lambda b: b.dense_backward_data(DY[:, :1], W), ["dy has 1 columns", "expected 2"]),
        (
            lambda b: b.dense_backward_weights(X, DY[:2], bias=True),
            ["dy has shape (2, 2)", "expected (3, 2)"],
        ),
        (lambda b: b.dense_backward_weights(X, DY[:, 0], bias=True), ["dy has shape (3,)"]),
        (lambda b: b.dense_backward_weights(X, DY.astype("f"), bias=True), ["dy is float32"]),
    ],
)
def test_dense_refuses_malformed_input_and_reports_the_found_values(call, words, backend: Backend):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)
