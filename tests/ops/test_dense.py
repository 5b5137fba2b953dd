"""Dense layers against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Array, Backend, OpsError
from ops.gradcheck import check_gradient
from tests.ops.conftest import nans, strided

SIZES = [(1, 1, 1), (7, 20, 3), (13, 5, 50)]


def loops(a: Array, b: Array) -> Array:
    """a (M, K) times b (K, N), one product at a time."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for m, n, k in np.ndindex(*out.shape, a.shape[1]):
        out[m, n] += float(a[m, k]) * float(b[k, n])
    return out


@pytest.mark.parametrize("layout", [np.ascontiguousarray, strided])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sizes", SIZES)
def test_dense_equals_its_definition(sizes, dtype, layout, random, backend: Backend):
    n, d, o = sizes
    x, w, b, dy = (random.standard_normal(s).astype(dtype) for s in ((n, d), (o, d), (o,), (n, o)))
    outs = [layout(nans(s, dtype)) for s in ((n, o), (n, d), (o, d), (o,))]
    dw, db = backend.dense_backward_weights(layout(x), layout(dy), bias=True, out_w=outs[2], out_b=outs[3])
    got = [
        backend.dense_forward(layout(x), layout(w), b, out=outs[0]),
        backend.dense_backward_data(layout(dy), layout(w), out=outs[1]),
        dw,
        db,
    ]
    expected = [
        loops(x, w.T) + b,
        loops(dy, w),
        loops(dy.T, x),
        [sum(float(v) for v in dy[:, k]) for k in range(o)],
    ]
    for mine, out, reference in zip(got, outs, expected, strict=True):
        assert mine is out
        np.testing.assert_allclose(mine, reference, atol=1e-12 if dtype == np.float64 else 2e-5)


def test_dense_allocates_and_does_without_a_bias(random, backend: Backend):
    x, w = random.standard_normal((3, 4)), random.standard_normal((2, 4))
    np.testing.assert_allclose(backend.dense_forward(x, w, None), loops(x, w.T))
    assert backend.dense_backward_weights(x, x[:, :2], bias=False)[1] is None


@pytest.mark.parametrize("sizes", SIZES)
def test_dense_gradients_pass_the_directional_check(sizes, random, backend: Backend):
    n, d, o = sizes
    x, w, b = (random.standard_normal(s) for s in ((n, d), (o, d), (o,)))

    def backward(dy: Array, x: Array, w: Array, b: Array) -> tuple[Array, ...]:
        return backend.dense_backward_data(dy, w), *backend.dense_backward_weights(x, dy, bias=True)

    check_gradient(backend.dense_forward, backward, x, w, b)


X, W, DY = np.zeros((3, 4)), np.zeros((2, 4)), np.zeros((3, 2))


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
def test_dense_refuses_malformed_input_and_says_what_it_found(call, words, backend: Backend):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)
