"""Pooling against Caffe's loop."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Array, Backend, OpsError, PoolGeometry
from ops.gradcheck import check_gradient
from tests.ops import naive
from tests.ops.conftest import LAYOUTS, nans

WINDOWS = [  # height, width, kernel, stride, pad
    (6, 8, (2, 2), (2, 2), (0, 0)),
    (7, 5, (2, 2), (2, 2), (0, 0)),
    (7, 8, (3, 3), (2, 2), (0, 0)),
    (6, 5, (3, 2), (1, 2), (1, 1)),
    (5, 5, (3, 3), (2, 2), (1, 1)),
    (4, 3, (4, 3), (1, 1), (0, 0)),
    (3, 7, (1, 1), (2, 3), (0, 0)),
    (2, 3, (3, 4), (3, 2), (2, 3)),
    (2, 1, (3, 5), (2, 1), (0, 4)),
]
GEOMETRIES = [(h, w, PoolGeometry(k, s, p, mode)) for h, w, k, s, p in WINDOWS for mode in ("MAX", "AVE")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("images", "channels"), [(1, 3), (7, 1)])
@pytest.mark.parametrize(("height", "width", "g"), GEOMETRIES)
def test_pooling_equals_caffes_loop(height, width, g, images, channels, layout, random, backend: Backend):
    x = random.integers(-3, 3, (images, channels, height, width)).astype(np.float64)  # ties in most windows
    expected, place = naive.pool(x, g)
    out, spare = layout(nans(expected.shape)), layout(np.full(expected.shape, -9, np.int32))
    y, argmax = backend.pool_forward(layout(x), g, out=out, argmax=spare)
    assert y is out
    np.testing.assert_allclose(y, expected, atol=1e-14)
    if g.mode == "MAX":
        assert argmax is spare
        np.testing.assert_array_equal(argmax, place)
    else:
        assert argmax is None
    dy = random.standard_normal(y.shape)
    dx = backend.pool_backward(layout(dy), g, x.shape, argmax, out=layout(nans(x.shape)))
    np.testing.assert_allclose(dx, naive.pool_backward(dy, g, x.shape, place), atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("height", "width", "g"), GEOMETRIES)
def test_pooling_allocates_results_of_the_inputs_dtype(height, width, g, layout, random, backend: Backend):
    x = random.standard_normal((2, 3, height, width)).astype(np.float32)
    expected, place = naive.pool(x, g)
    y, argmax = backend.pool_forward(layout(x), g)
    dx = backend.pool_backward(y, g, x.shape, argmax)
    assert y.dtype == dx.dtype == np.float32 and (argmax is None or argmax.dtype == np.int32)
    np.testing.assert_allclose(y, expected, atol=1e-6)
    np.testing.assert_allclose(dx, naive.pool_backward(expected, g, x.shape, place), atol=1e-5)


@pytest.mark.parametrize(("height", "width", "g"), GEOMETRIES)
def test_pooling_gradients_pass_the_directional_check(height, width, g, random, backend: Backend):
    x = random.permutation(2 * 3 * height * width).reshape(2, 3, height, width) / 7.0  # far from ties

    def backward(dy: Array, x: Array) -> tuple[Array]:
        return (backend.pool_backward(dy, g, x.shape, backend.pool_forward(x, g)[1]),)

    check_gradient(lambda x: backend.pool_forward(x, g)[0], backward, x)


@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_a_window_without_a_finite_maximum_shows_it_and_keeps_its_argmax_in_the_plane(bad, backend: Backend):
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


X, G = np.zeros((2, 3, 6, 6)), PoolGeometry((2, 2), (2, 2))
DY, PLACE = np.zeros((2, 3, 3, 3)), np.zeros((2, 3, 3, 3), np.int32)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b: b.pool_forward(X[0], G), ["x has shape (3, 6, 6)"]),
        (lambda b: b.pool_forward(X, G, out=X), ["out has shape (2, 3, 6, 6)", "expected (2, 3, 3, 3)"]),
        (lambda b: b.pool_forward(X, G, argmax=PLACE.astype(np.int64)), ["argmax is int64", "int32"]),
        (lambda b: b.pool_backward(DY, G, X.shape), ["argmax is missing"]),
        (lambda b: b.pool_backward(DY, G, X.shape, PLACE.astype(np.int64)), ["argmax is int64"]),
        (lambda b: b.pool_backward(DY, G, X.shape, PLACE[:1]), ["argmax has shape (1, 3, 3, 3)"]),
        (lambda b: b.pool_backward(DY[:1], G, X.shape, PLACE), ["dy has shape (1, 3, 3, 3)"]),
        (lambda b: b.pool_backward(DY, G, (6, 6), PLACE), ["(6, 6)", "(N, C, H, W)"]),
    ],
)
def test_pooling_refuses_malformed_input_and_says_what_it_found(call, words, backend: Backend):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)
