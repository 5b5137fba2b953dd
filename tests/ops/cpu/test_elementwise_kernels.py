"""The CPU backend's loops over elements, pixels and channels at awkward sizes, compared with the
reference in float64."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from ops import BFLOAT16, Activation, PoolGeometry
from ops.activation import RELU
from ops.cpu.team.image_layout import empty_aligned
from ops.cpu.team.operands import LARGE, Rows, address, as_rows

SHAPES = [(1, 1, 3, 2), (7, 3, 5, 4), (13, 20, 3, 3), (1, 50, 4, 4), (7, 97, 2, 3), (100, 16, 1, 2)]
ACTIVATIONS = [
    None,
    RELU,
    Activation("clip", (-0.4, 0.9)),
    Activation("swish", (1.5,)),
    Activation("gelu"),
    Activation("hard_swish"),
]
POOLS = [
    PoolGeometry(*window, mode=mode)
    for mode in ("MAX", "AVE")
    for window in (
        ((2, 2), (2, 2)),
        ((2, 1), (3, 2)),
        ((2, 2), (2, 2), (1, 1)),
        ((3, 3), (2, 2)),
        ((3, 3), (1, 1), (1, 1)),
        ((5, 4), (3, 3), (2, 1)),
        ((7, 9),),
    )
]


def drawn(fast, shape, seed=3):
    x = fast.empty(shape)
    x[...] = np.random.default_rng(seed).standard_normal(shape)
    return x


def blank(fast, shape, dtype=np.float32):
    """A destination whose fill value shows elements that were not written."""
    out = fast.empty(shape, dtype)
    out[...] = np.nan if dtype == np.float32 else -9
    return out


def slice_of(fast, shape, seed=3):
    """A slice of channels from 2 on of a larger block, whose other channels are 77."""
    block = fast.empty((shape[0], shape[1] + 5, *shape[2:]))
    block[...] = 77
    part = block[:, 2:-3]
    part[...] = np.random.default_rng(seed).standard_normal(shape)
    return part, block


def image_by_image(x):
    """The same images stored as [N][H][W][C]."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def wide(*arrays):
    return [a.astype(np.float64) for a in arrays]


def close(mine, right, tolerance=1e-5):
    np.testing.assert_allclose(
        mine, right, rtol=0, atol=tolerance * max(1.0, float(np.abs(right).max(initial=0)))
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elementwise_results_equal_the_reference_in_channel_slices_too(shape, fast, reference):
    x = drawn(fast, shape)
    y = drawn(fast, shape, 4)
    for sliced in (False, True):
        out, block = slice_of(fast, shape) if sliced else (blank(fast, shape), None)
        for call in (
            lambda b, x, y, out: b.relu_forward(x, out=out),
            lambda b, x, y, out: b.relu_forward(x, 0.1, out=out),
            lambda b, x, y, out: b.relu_backward(x, y, out=out),
            lambda b, x, y, out: b.relu_backward(x, y, -0.3, out=out),
            lambda b, x, y, out: b.clip_forward(x, -0.5, 0.7, out=out),
            lambda b, x, y, out: b.clip_backward(x, y, -0.5, 0.7, out=out),
            lambda b, x, y, out: b.add(x, y, out=out),
            lambda b, x, y, out: b.add_all([x, y, x, y, x], out=out),
            lambda b, x, y, out: b.copy(x, np.empty_like(x) if out is None else out),
            lambda b, x, y, out: b.eltwise_forward(
                [x, y, x, y, x, y], coeffs=[1, 2, 3, 4, 5, 6], out=out
            )[0],
            lambda b, x, y, out: b.eltwise_backward(x, [y], coeffs=[2.5], outs=[out])[0],
            lambda b, x, y, out: b.dropout(x, 0.3, 2**63 + 1, 3, out=out),
        ):
            close(call(fast, x, y, out), call(reference, *wide(x, y), None))
        assert block is None or (block[:, :2] == 77).all()
        assert block is None or (block[:, -3:] == 77).all()


@pytest.mark.parametrize("count", range(2, 10))
def test_many_arrays_are_added_up_in_the_order_of_the_reference_to_the_last_bit(
    count, fast, reference
):
    rng = np.random.default_rng(count)
    arrays = [
        (rng.standard_normal(1003) * 10.0 ** rng.integers(-3, 4)).astype(np.float32)
        for _ in range(count)
    ]
    assert fast.add_all(arrays).tobytes() == reference.add_all(arrays).tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_channel_results_equal_the_reference(shape, fast, reference):
    x = drawn(fast, shape)
    dy = drawn(fast, shape, 4)
    out = blank(fast, shape)
    gamma, beta, mean, variance = (
        np.random.default_rng(k).random(shape[1], np.float32) + 0.1 for k in range(4)
    )
    place = [np.full(shape[1], np.nan, np.float32) for _ in range(2)]
    for call in (
        lambda b, x, dy, *p, out=None: b.scale_forward(x, p[0], p[1], out=out),
        lambda b, x, dy, *p, out=None: b.bias_forward(x, p[1], out=out),
        lambda b, x, dy, *p, out=None: b.batch_norm_forward(x, statistics=(p[2], p[3]), out=out)[0],
        lambda b, x, dy, *p, out=None: b.batch_norm_backward(dy, x, p[3], out=out),
        lambda b, x, dy, *p, out=None: b.batch_norm_backward(dy, x, p[3], fixed=True, out=out),
        *(
            lambda b, x, dy, *p, out=None, a=a: b.norm_scale_forward(
                x, p[0], p[1], statistics=p[2:], activation=a, out=out
            )[0]
            for a in ACTIVATIONS
        ),
        *(
            lambda b, x, dy, *p, out=None, a=a: b.norm_scale_backward(
                dy, x, *p, activation=a, out=out
            )[0]
            for a in ACTIVATIONS
        ),
    ):
        right = call(reference, *wide(x, dy, gamma, beta, mean, variance))
        close(call(fast, x, dy, gamma, beta, mean, variance, out=out), right)
    close(fast.channel_sums(dy, out=place[0]), dy.astype(np.float64).sum((0, 2, 3)))
    fast.scale_backward_weights(x, dy, shape[1:2], bias=True, out_gamma=place[0], out_beta=place[1])
    close(place[0], (x.astype(np.float64) * dy).sum((0, 2, 3)))
    close(place[1], dy.astype(np.float64).sum((0, 2, 3)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm_equals_the_reference_in_channel_slices_too(shape, fast, reference):
    for make in (drawn, lambda *given: slice_of(*given)[0]):
        x = make(fast, shape)
        x += 10  # the variance must not cancel
        dy = make(fast, shape, 4)
        places = np.full((shape[0], *shape[2:]), np.nan, np.float32)
        y, inverse = fast.layer_norm_forward(x, out=blank(fast, shape), inverse=places)
        right, right_inverse = reference.layer_norm_forward(x.astype(np.float64))
        close(y, right, 1e-4)
        np.testing.assert_allclose(inverse, right_inverse, rtol=1e-4)
        dx = fast.layer_norm_backward(dy, y, inverse, out=blank(fast, shape))
        close(dx, reference.layer_norm_backward(*wide(dy, y, inverse)))
        close(fast.layer_norm_backward(dy, y, inverse, out=dy), dx)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("geometry", POOLS, ids=str)
def test_pooling_equals_the_reference(shape, geometry, fast, reference):
    if geometry.kernel == (7, 9):
        geometry = PoolGeometry(shape[2:], mode=geometry.mode)  # global pooling
    elif (
        shape[2] + 2 * geometry.pad[0] < geometry.kernel[0]
        or shape[3] + 2 * geometry.pad[1] < geometry.kernel[1]
    ):
        shape = (*shape[:2], 9, 8)
    small = geometry.output_shape(shape)
    for x in (drawn(fast, shape), slice_of(fast, shape)[0], image_by_image(drawn(fast, shape))):
        y, place = fast.pool_forward(
            x, geometry, out=blank(fast, small), argmax=blank(fast, small, np.int32)
        )
        right, right_place = reference.pool_forward(x.astype(np.float64), geometry)
        close(y, right)
        dy = drawn(fast, small, 5)
        dx = fast.pool_backward(dy, geometry, shape, argmax=place, out=blank(fast, shape))
        if geometry.mode == "MAX":
            np.testing.assert_array_equal(place, right_place)
        close(
            dx, reference.pool_backward(dy.astype(np.float64), geometry, shape, argmax=right_place)
        )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("beta", [0.75, 0.5, 1.0])
@pytest.mark.parametrize("size", [1, 3, 5, 35])
def test_lrn_equals_the_reference(shape, size, beta, fast, reference):
    options = {"size": size, "alpha": 0.5, "beta": beta}
    x = 3 * drawn(fast, shape)
    dy = drawn(fast, shape, 4)
    y, scale = fast.lrn_forward(
        x, **options, k=2.0, out=blank(fast, shape), scale=blank(fast, shape)
    )
    right, right_scale = reference.lrn_forward(x.astype(np.float64), **options, k=2.0)
    close(y, right)
    close(scale, right_scale)
    dx = fast.lrn_backward(dy, x, y, scale, **options, out=blank(fast, shape))
    close(dx, reference.lrn_backward(*wide(dy, x), right, right_scale, **options))
    close(fast.lrn_backward(dy, x, y, scale, **options, out=dy), dx)


def test_nan_passes_through_as_in_the_reference(fast, reference):
    x = drawn(fast, (3, 20, 4, 4))
    x[1, 4, 1, 1] = np.nan
    assert np.isnan(fast.relu_forward(x)[1, 4, 1, 1])
    assert np.isnan(fast.relu_forward(x, 0.2)[1, 4, 1, 1])
    assert np.isnan(fast.clip_forward(x, 0, 6)[1, 4, 1, 1])
    y, place = fast.pool_forward(x, PoolGeometry((2, 2), (2, 2)))
    assert np.isnan(y[1, 4, 0, 0])
    assert place[1, 4, 0, 0] == 5
    assert np.isnan(y).sum() == 1
    statistics = fast.batch_norm_forward(x)[1:]
    assert all(np.isnan(part).tolist() == [k == 4 for k in range(20)] for part in statistics)


def test_the_variance_does_not_cancel_far_from_zero(fast):
    x = fast.empty((64, 20, 40, 40))
    x[...] = np.random.default_rng(1).standard_normal(x.shape)
    x += 10.0 ** np.arange(-4, 16).reshape(-1, 1, 1) % 10.0**4.5
    _, mean, variance = fast.batch_norm_forward(x)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean((0, 2, 3)), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, exact.var((0, 2, 3)), rtol=1e-5)


def test_sums_repeat_to_the_last_bit(fast):
    x = drawn(fast, (13, 50, 17, 9))
    first = fast.channel_sums(x).copy()
    assert all(np.array_equal(fast.channel_sums(x), first) for _ in range(20))


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 4099])
def test_updates_of_any_length_equal_the_reference(size, fast, reference):
    w, g, h, s = (np.random.default_rng(k).random(size, np.float32) for k in range(4))
    common = {"rate": 0.1, "decay": 0.05}
    for call in (
        lambda b, w, g, h, s: b.sgd_update(w, g, h, momentum=0.9, **common),
        lambda b, w, g, h, s: b.nesterov_update(
            w, g, h, momentum=0.9, **common, regularization="L1"
        ),
        lambda b, w, g, h, s: b.adam_update(w, g, h, s, step=3, **common),
        lambda b, w, g, h, s: b.adamw_update(w, g, h, s, step=3, **common),
        lambda b, w, g, h, s: b.sgdw_update(w, g, h, momentum=0.9, **common),
        lambda b, w, g, h, s: b.sgdw_update(w, g, h, momentum=0.9, nesterov=True, **common),
        lambda b, w, g, h, s: (b.moving_average(h, w, 0.9),),
    ):
        for mine, right in zip(
            call(fast, w, g, h, s), call(reference, *wide(w, g, h, s)), strict=True
        ):
            close(mine, right, 1e-6)
    new_w, new_h = fast.sgd_update(w, g, h, momentum=0.9, **common)
    fast.sgd_update(w, g, h, momentum=0.9, **common, out_w=w, out_h=h)
    np.testing.assert_array_equal(w, new_w)
    np.testing.assert_array_equal(h, new_h)


TINY = {"rate": 0.0013, "decay": 0.05}
UPDATES = {
    "sgd": lambda b, w, g, h, s: b.sgd_update(w, g, h, momentum=0.9, **TINY),
    "nesterov": lambda b, w, g, h, s: b.nesterov_update(w, g, h, momentum=0.9, **TINY),
    "adagrad": lambda b, w, g, h, s: b.adagrad_update(w, g, s, **TINY),
    "rmsprop": lambda b, w, g, h, s: b.rmsprop_update(w, g, s, **TINY),
    "adam": lambda b, w, g, h, s: b.adam_update(w, g, h, s, step=3, **TINY),
    "sgdw": lambda b, w, g, h, s: b.sgdw_update(w, g, h, momentum=0.9, **TINY),
    "nesterovw": lambda b, w, g, h, s: b.sgdw_update(w, g, h, momentum=0.9, nesterov=True, **TINY),
    "adamw": lambda b, w, g, h, s: b.adamw_update(w, g, h, s, step=3, **TINY),
    "average": lambda b, w, g, h, s: (b.moving_average(h, w, 0.9),),
}


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_has_the_same_bits_wherever_a_number_lies_in_its_array(name, fast):
    w, g, h, s = (np.random.default_rng(k).standard_normal(4000, np.float32) for k in range(4))
    arrays = (w, g, h / 10, abs(s) / 100)
    whole = UPDATES[name](fast, *arrays)
    for cut in (2000, 1999, 3):
        parts = [[a[part] for a in arrays] for part in (slice(cut), slice(cut, None))]
        cuts = [UPDATES[name](fast, *part) for part in parts]
        for of, first, rest in zip(whole, *cuts, strict=True):
            assert np.concatenate([first, rest]).tobytes() == of.tobytes()


def test_with_destinations_given_nothing_is_allocated(fast):
    shape = (8, 20, 16, 16)
    geometry = PoolGeometry((3, 3), (2, 2))
    small = geometry.output_shape(shape)
    x, y, dy, scale, p, q, dp = (
        *(drawn(fast, shape) for _ in range(4)),
        *(drawn(fast, small) for _ in range(3)),
    )
    place = fast.empty(small, np.int32)
    rows = fast.empty((8, 20 * 256))
    vectors = [np.ones(20, np.float32)] * 6
    g, b, m, v, dg, db = vectors
    labels = np.zeros(8, np.float32)
    scores = fast.empty((8, 5120))

    def everything():
        fast.relu_forward(x, out=y)
        fast.relu_backward(dy, y, out=dy)
        fast.pool_forward(x, geometry, out=p, argmax=place)
        fast.pool_backward(dp, geometry, shape, argmax=place, out=dy)
        fast.lrn_forward(x, out=y, scale=scale)
        fast.lrn_backward(dy, x, y, scale, out=dy)
        fast.batch_norm_forward(x, out=y, mean=m, variance=v)
        fast.batch_norm_backward(dy, y, v, out=dy)
        fast.scale_forward(x, g, b, out=y)
        fast.scale_backward_weights(x, dy, (20,), bias=True, out_gamma=dg, out_beta=db)
        fast.norm_scale_forward(x, g, b, activation=RELU, out=y, mean=m, variance=v)
        fast.norm_scale_backward(
            dy, x, g, b, m, v, activation=RELU, out=y, out_gamma=dg, out_beta=db
        )
        fast.rectified_sums([dy, x], y, x, m, out=dy, out_sums=dg, out_products=db)
        fast.channel_sums(dy, out=db)
        fast.eltwise_forward([p, q], out=dp)
        fast.flatten(x, out=rows)
        fast.unflatten(rows, shape, out=y)
        fast.sgd_update(g, b, m, rate=0.1, momentum=0.9, decay=0.1, out_w=g, out_h=m)
        fast.softmax_loss_forward(rows, labels, out=scores)
        fast.softmax_loss_backward(scores, labels, out=rows)

    everything()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        everything()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - before < 8192  # memory for blocks of arguments; the smallest image here has 20 KB


def test_rows_are_as_long_as_they_can_be():
    """Strides in bytes: arrays that are dense in one order, a channel slice, and two arrays that
    have no rows in common."""
    dense = (4, 80, 160)
    other = (4, 80, 320)
    assert as_rows((20, 2, 7), [4, 4], [dense, dense]) == Rows(1, 280, (0, 0))
    assert as_rows((20, 2, 7), [4, 4], [dense, dense], kept=0) == Rows(14, 20, (80, 80))
    assert as_rows((20, 2, 7), [4, 4], [dense, other]) == Rows(7, 40, (160, 320))
    assert as_rows((20, 2, 7), [4, 4], [dense, (4, 100, 320)]) is None
    assert as_rows((20, 2), [4, 4], [(4, 80), (8, 4)]) is None
    assert as_rows((20, 2), [4], [(4, -80)]) is None
    assert as_rows((1, 1), [4], [(400, 400)]) == Rows(1, 1, (0,))


def test_the_address_of_an_array_is_right_however_often_its_id_is_reused():
    for size in range(1, 200):
        x = np.empty(size, np.float32)
        assert address(x) == address(x) == x.ctypes.data


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BFLOAT16], ids=str)
def test_large_results_between_the_places_of_numbers_are_whole(fast, dtype):
    """No number of such an array begins at a cache line, so none can bypass the caches."""
    count = 1 + LARGE // dtype.itemsize
    memory = np.full(LARGE + 256, 7, np.uint8)
    begin = -memory.ctypes.data % 64 + 1
    y = np.ndarray((count,), dtype, memory, begin)
    fast.relu_forward(np.full(count, 3, np.float32), out=y)
    assert (y == 3).all()
    assert (memory[:begin] == 7).all()
    assert (memory[begin + y.nbytes :] == 7).all()


def test_new_arrays_start_at_a_cache_line():
    for shape in ((3,), (5, 7), (1, 2, 3, 5)):
        x = empty_aligned(shape)
        assert x.shape == shape
        assert x.ctypes.data % 64 == 0
