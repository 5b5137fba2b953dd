"""Convolution: properties that the contract of the backends does not cover."""

from __future__ import annotations

import numpy as np
import pytest

from ops import Array, Backend, ConvGeometry, OpsError, get_backend
from tests.ops import naive
from tests.ops.cases.spatial import CONV as CASES


def draw(random: np.random.Generator, case: tuple, dtype: object = np.float64) -> tuple[Array, ...]:
    n, c, k, h, w, g = case
    shapes = [(n, c, h, w), (k, c // g.groups, *g.kernel), (k,), g.output_shape((n, c, h, w), k)]
    return tuple(random.standard_normal(s).astype(dtype) for s in shapes)


def test_convolution_without_bias_adds_none_and_gives_no_bias_gradient(random, backend: Backend):
    x, w, _, dy = draw(random, CASES[1])
    g = CASES[1][-1]
    y = backend.conv_forward(x, w, None, g)
    np.testing.assert_allclose(y, naive.conv_forward(x, w, np.zeros(4), dy.shape, g), atol=1e-11)
    assert backend.conv_backward_weights(x, dy, g, w.shape, bias=False)[1] is None


def test_convolution_leaves_its_inputs_untouched(random):
    inputs = draw(random, CASES[5])
    g = CASES[5][-1]
    before = [a.copy() for a in inputs]
    for a in inputs:
        a.flags.writeable = False
    x, w, b, dy = inputs
    backend = get_backend(b_p=2)
    backend.conv_forward(x, w, b, g)
    backend.conv_backward_data(dy, w, g, x.shape)
    backend.conv_backward_weights(x, dy, g, w.shape, bias=True)
    for a, same in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(a, same)


G = ConvGeometry((3, 3), groups=2)
X = np.zeros((2, 4, 5, 5))
W = np.zeros((6, 2, 3, 3))
B = np.zeros(6)
DY = np.zeros((2, 6, 3, 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b: b.conv_forward(X[0], W, B, G), ["x has shape (4, 5, 5)", "4 axes"]),
        (lambda b: b.conv_forward(X, W[:5], None, G), ["(5, 2, 3, 3)", "multiple of 2"]),
        (lambda b: b.conv_forward(X, W[..., :2], B, G), ["(6, 2, 3, 2)", "4 channels / 2 groups"]),
        (lambda b: b.conv_forward(X, W[:, 0], B, G), ["weights have shape (6, 3, 3)"]),
        (lambda b: b.conv_forward(X, W, B[:5], G), ["b has shape (5,)", "expected (6,)"]),
        (lambda b: b.conv_forward(X, W.astype("f"), B, G), ["w is float32", "x is float64"]),
        (lambda b: b.conv_forward(X.astype(int), W, B, G), ["x is int64", "float32 or float64"]),
        (lambda b: b.conv_forward([1.0], W, B, G), ["x is list"]),
        (lambda b: b.conv_forward(X, W, B, G, out=DY[:1]), ["out has shape (1, 6, 3, 3)", "(2, 6, 3, 3)"]),
        (lambda b: b.conv_forward(X, W, B, G, out=DY.astype("f")), ["out is float32", "expected float64"]),
        (lambda b: b.conv_forward(X[:, :, :2], W, B, G), ["height is 2", "extent 3"]),
        (lambda b: b.conv_forward(X[:0], W, B, G), ["(0, 4, 5, 5)", "positive"]),
        (lambda b: b.conv_backward_data(DY[:, :, 1:], W, G, X.shape), ["dy has shape (2, 6, 2, 3)"]),
        (lambda b: b.conv_backward_data(DY, W, G, (2,)), ["(2,)", "(N, C, H, W)"]),
        (lambda b: b.conv_backward_weights(X, DY, G, (6, 4, 3, 3), bias=True), ["(6, 4, 3, 3)"]),
        (lambda b: b.conv_backward_weights(X, DY, G, W.shape, bias=True, out_b=W), ["out_b"]),
    ],
)  # fmt: skip
def test_convolution_refuses_malformed_input_and_reports_the_found_values(
    call, words, backend: Backend
):
    with pytest.raises(OpsError) as caught:
        call(backend)
    for word in words:
        assert word in str(caught.value)


def test_a_read_only_destination_is_refused(backend: Backend):
    out = DY.copy()
    backend.conv_forward(X, W, B, G, out=out)
    out.flags.writeable = False
    with pytest.raises(OpsError, match="read-only"):
        backend.conv_forward(X, W, B, G, out=out)
