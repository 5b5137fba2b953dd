"""Promises of single operations that the contract's table does not show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import Backend, ConvGeometry, OpsError, PoolGeometry, get_backend
from ops.backends.cupy_backend import CupyBackend
from ops.reference import normal
from tests.ops.conftest import LAYOUTS
from tests.ops.host_cupy import HostCupy


def test_the_contrastive_gradient_is_caffes_with_its_small_number_in_the_distance(
    random, backend: Backend
):
    a, b = random.standard_normal((2, 9, 3))
    b[0] = a[0]  # a distance of zero
    same = np.array([0, 1, 0, 1, 0, 1, 0, 0, 0])
    _, diff = backend.contrastive_forward(a, b, same, margin=2.5)
    got = backend.contrastive_backward(diff, same, margin=2.5, loss_weight=3.0)
    for n in range(9):
        distance = math.sqrt(sum(float(v) ** 2 for v in a[n] - b[n]))
        beta = 1.0 if same[n] else -max(2.5 - distance, 0) / (distance + 1e-4)
        np.testing.assert_allclose(got[n], 3.0 / 9 * beta * (a[n] - b[n]), rtol=1e-12)


def test_smooth_functions_neither_overflow_nor_warn_for_huge_arguments(backend: Backend):
    x = np.array([-1e4, 0.0, 1e4], np.float32)
    np.testing.assert_allclose(backend.sigmoid_forward(x), [0, 0.5, 1])
    np.testing.assert_allclose(backend.bnll_forward(x), [0, math.log(2), 1e4], rtol=1e-6)
    np.testing.assert_allclose(backend.bnll_backward(np.ones_like(x), x), [0, 0.5, 1])
    np.testing.assert_allclose(backend.elu_forward(x), [-1, 0, 1e4])
    loss, _ = backend.sigmoid_cross_entropy_forward(
        x, np.array([1, 1, 0], np.float32), normalization="NONE"
    )
    assert loss == pytest.approx(2e4 + math.log(2))


@pytest.mark.parametrize("name", ["numpy", "cpu", "kernels"])
def test_gates_neither_overflow_nor_warn_for_huge_arguments(name):
    try:
        backend = CupyBackend(xp=HostCupy()) if name == "kernels" else get_backend(name)
    except OpsError as missing:
        pytest.skip(str(missing))
    for size in (1e4, 1e34):
        x = np.array([-size, 0, size], np.float32)
        one = np.ones_like(x)
        for kind, options in (
            ("swish", {}),
            ("gelu", {"tanh": False}),
            ("gelu", {"tanh": True}),
            ("hard_swish", {}),
        ):
            y = getattr(backend, f"{kind}_forward")(x, **options)
            np.testing.assert_allclose(y, [0, 0, size])
            dx = getattr(backend, f"{kind}_backward")(one, x, **options)
            np.testing.assert_allclose(dx, [0, 0.5, 1])
        np.testing.assert_allclose(backend.hard_sigmoid_forward(x), [0, 0.5, 1])
        np.testing.assert_allclose(backend.hard_sigmoid_backward(one, x), [0, 1 / 6, 0], rtol=1e-6)


def test_the_normal_distribution_is_as_exact_as_its_dtype_also_far_from_its_middle():
    x = np.linspace(-12, 12, 4001)
    expected = np.array([math.erfc(-v * math.sqrt(0.5)) / 2 for v in x])
    np.testing.assert_allclose(normal.cumulative(np, x), expected, rtol=2e-14)
    near = abs(x) < 6  # float32 rounds the exponent of the tail
    single = normal.cumulative(np, x.astype(np.float32))
    np.testing.assert_allclose(single[near], expected[near], rtol=2e-5)
    np.testing.assert_allclose(single, expected, atol=2e-7)


def test_a_batch_of_ignored_targets_costs_nothing(backend: Backend):
    x = np.ones((2, 3))
    t = np.full((2, 3), -1.0)
    loss, prob = backend.sigmoid_cross_entropy_forward(x, t, ignore_label=-1)
    assert loss == 0
    np.testing.assert_array_equal(
        backend.sigmoid_cross_entropy_backward(prob, t, ignore_label=-1), np.zeros((2, 3))
    )


def test_the_embedding_of_no_words_has_a_gradient_of_zeros(backend: Backend):
    dw, db = backend.embed_backward_weights(
        np.zeros((0,), int), np.zeros((0, 3)), (4, 3), bias=True
    )
    np.testing.assert_array_equal(dw, np.zeros((4, 3)))
    np.testing.assert_array_equal(db, np.zeros(3))


def test_deconvolution_undoes_the_shape_of_convolution():
    g = ConvGeometry((4, 3), stride=(2, 1), pad=(1, 1))
    shape = g.output_shape((2, 6, 16, 9), 4)
    assert g.transposed_shape(shape, 6) == (2, 6, 16, 9)


@pytest.mark.parametrize("mode", ["MAX", "AVE"])
def test_pooling_with_a_window_over_the_whole_plane_is_global(mode, random, backend: Backend):
    x = random.standard_normal((2, 3, 7, 6))
    y, place = backend.pool_forward(x, PoolGeometry((7, 6), mode=mode))
    np.testing.assert_allclose(y[:, :, 0, 0], x.max((2, 3)) if mode == "MAX" else x.mean((2, 3)))
    if place is not None:
        np.testing.assert_array_equal(place.reshape(6), x.reshape(6, -1).argmax(1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [5, 8, 13, 16])
def test_large_windows_give_the_same_maxima_without_places_and_keep_nan(
    kernel, layout, random, backend: Backend
):
    g = PoolGeometry((kernel, kernel), (1, 2), (kernel // 2, kernel // 3))
    x = random.standard_normal((2, 3, 17, 16))
    x[0, 0, 8, 8] = np.nan
    y, place = backend.pool_forward(layout(x), g, argmax=False)
    assert place is None
    padded = np.pad(
        x, ((0, 0), (0, 0), (kernel // 2, 99), (kernel // 3, 99)), constant_values=-np.inf
    )
    for p, q in np.ndindex(y.shape[2:]):
        window = padded[:, :, p : p + kernel, 2 * q : 2 * q + kernel]
        np.testing.assert_array_equal(y[:, :, p, q], window.max((2, 3)))


def test_adam_counts_its_steps_from_one(backend: Backend):
    w = np.zeros(3)
    g = np.array([1.0, -2.0, 0.5])
    new_w, _, _ = backend.adam_update(w, g, np.zeros(3), np.zeros(3), rate=0.1, step=1, delta=0.0)
    # the first step has the size of the rate, whatever the size of the gradient
    np.testing.assert_allclose(new_w, -0.1 * np.sign(g), rtol=1e-12)


def test_gradients_can_be_clipped_by_the_norm_of_many_arrays(random, backend: Backend):
    grads = [random.standard_normal(s).astype(np.float32) for s in ((3, 2_000_001), (5,))]
    total = sum(backend.l2_norm_squared(g) for g in grads)
    assert total == pytest.approx(
        sum(float((g.astype(np.float64) ** 2).sum()) for g in grads), rel=1e-12
    )


@pytest.mark.parametrize("region", ["ACROSS_CHANNELS", "WITHIN_CHANNEL"])
def test_lrn_of_many_images_equals_lrn_of_each_alone(region, random, backend: Backend):
    # the images take more than one part of lrn.CACHED_ELEMENTS
    x, dy = random.standard_normal((2, 5, 8, 64, 64))
    options = {"size": 5, "alpha": 0.5, "region": region}
    y, scale = backend.lrn_forward(x, **options)
    dx = backend.lrn_backward(dy, x, y, scale, **options)
    for n in range(5):
        one = slice(n, n + 1)
        y_one, scale_one = backend.lrn_forward(x[one], **options)
        np.testing.assert_array_equal(y[one], y_one)
        np.testing.assert_array_equal(
            dx[one], backend.lrn_backward(dy[one], x[one], y_one, scale_one, **options)
        )
