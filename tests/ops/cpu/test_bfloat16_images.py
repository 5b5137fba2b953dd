"""Operations of images that are stored in bfloat16, compared with the float32 reference on the
widened images: an array that is stored in bfloat16 is rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops import BFLOAT16, Activation, Array, PoolGeometry
from ops.activation import RELU
from tests.ops.cpu.conftest import cpu

F32 = np.dtype(np.float32)
# channels within a vector and beyond one; many pixels and one
SHAPES = [(7, 3, 5, 4), (2, 97, 1, 1), (1, 64, 7, 6)]
LARGE = (16, 64, 40, 40)  # results that bypass the caches
ACTIVATIONS = [
    None,
    RELU,
    Activation("clip", (-0.4, 0.9)),
    Activation("swish", (1.5,)),
    Activation("gelu"),
    Activation("hard_swish"),
]
ROUNDING = 2.0**-8  # of the largest number
SUMMING = 1e-5  # of the largest number, in float32
EPS = 1e-5


def drawn(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Numbers that bfloat16 holds exactly."""
    found = cpu(1).empty(shape, dtype)
    found[...] = np.random.default_rng(seed).standard_normal(shape).astype(BFLOAT16)
    return found


def wide(x: Array) -> Array:
    return np.ascontiguousarray(x.astype(np.float32))


def blank(shape: tuple[int, ...], dtype: np.dtype[Any] = F32) -> Array:
    """A destination whose numbers show what was not written."""
    found = cpu(1).empty(shape, dtype)
    found.view(np.uint16 if dtype == BFLOAT16 else np.uint32)[...] = 0x7FFF
    return found


def close(found: Array, expected: Array) -> None:
    bound = ROUNDING if found.dtype == BFLOAT16 else SUMMING
    expected = np.asarray(expected, np.float64)
    off = np.abs(found.astype(np.float64) - expected)
    assert off.max(initial=0) <= bound * np.abs(expected).max(initial=1e-30), off.max()


def mixtures(count: int) -> Any:
    """All arrays in bfloat16, or all but the first or the last."""
    rest = [BFLOAT16] * (count - 1)
    given = [(BFLOAT16, *rest), (F32, *rest), (*rest, F32)]
    return pytest.mark.parametrize(
        "kinds", given, ids=lambda kinds: "-".join(kind.name for kind in kinds)
    )


shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
activations = pytest.mark.parametrize(
    "activation", ACTIVATIONS, ids=lambda a: "none" if a is None else a.kind
)

Unary = Callable[..., Array]
FORWARD: dict[str, Unary] = {
    "relu": lambda ops, x, out: ops.relu_forward(x, out=out),
    "leaky relu": lambda ops, x, out: ops.relu_forward(x, 0.1, out=out),
    "clip": lambda ops, x, out: ops.clip_forward(x, -0.4, 0.9, out=out),
    "swish": lambda ops, x, out: ops.swish_forward(x, 1.5, out=out),
    "gelu": lambda ops, x, out: ops.gelu_forward(x, out=out),
    "hard swish": lambda ops, x, out: ops.hard_swish_forward(x, out=out),
    "hard sigmoid": lambda ops, x, out: ops.hard_sigmoid_forward(x, out=out),
    "weighted": lambda ops, x, out: ops.eltwise_forward([x], coeffs=[0.3], out=out)[0],
    "copy": lambda ops, x, out: ops.copy(x, out),
}
BACKWARD: dict[str, Unary] = {
    "relu": lambda ops, dy, x, out: ops.relu_backward(dy, x, out=out),
    "leaky relu": lambda ops, dy, x, out: ops.relu_backward(dy, x, 0.1, out=out),
    "clip": lambda ops, dy, x, out: ops.clip_backward(dy, x, -0.4, 0.9, out=out),
    "swish": lambda ops, dy, x, out: ops.swish_backward(dy, x, 1.5, out=out),
    "gelu": lambda ops, dy, x, out: ops.gelu_backward(dy, x, out=out),
    "hard swish": lambda ops, dy, x, out: ops.hard_swish_backward(dy, x, out=out),
    "hard sigmoid": lambda ops, dy, x, out: ops.hard_sigmoid_backward(dy, x, out=out),
    "sum": lambda ops, a, b, out: ops.add(a, b, out=out),
    "weighted sum": lambda ops, a, b, out: ops.eltwise_forward([a, b], coeffs=[2, 0.3], out=out)[0],
}


@shapes
@mixtures(2)
@pytest.mark.parametrize("operation", FORWARD.values(), ids=FORWARD)
def test_functions_of_single_elements(fast, reference, operation, shape, kinds) -> None:
    x = drawn(shape, kinds[0], 1)
    close(
        operation(fast, x, blank(shape, kinds[1])),
        operation(reference, wide(x), blank(shape)),
    )


@shapes
@mixtures(3)
@pytest.mark.parametrize("operation", BACKWARD.values(), ids=BACKWARD)
def test_gradients_and_sums_of_single_elements(fast, reference, operation, shape, kinds) -> None:
    a, b = (drawn(shape, kind, seed) for seed, kind in enumerate(kinds[:2]))
    close(
        operation(fast, a, b, blank(shape, kinds[2])),
        operation(reference, wide(a), wide(b), blank(shape)),
    )


def test_large_results_are_whole_and_leave_their_neighbours_alone(fast, reference) -> None:
    x = drawn(LARGE, BFLOAT16, 1)
    y = blank(LARGE, BFLOAT16)
    close(fast.relu_forward(x, out=y), reference.relu_forward(wide(x)))
    n, c, h, w = LARGE
    block = blank((n, c + 32, h, w), BFLOAT16)
    fast.copy(x, block[:, 32:])
    assert (block[:, 32:] == x).all()
    assert (block[:, :32].view(np.uint16) == 0x7FFF).all()
    line = blank((1, 3 << 20, 1, 1), BFLOAT16).reshape(-1)
    found = line[1:-1]  # a single row that does not start at a cache line
    fast.add(found[::-1][::-1], np.zeros(found.size, np.float32), out=found)
    assert line[[0, -1]].view(np.uint16).tolist() == [0x7FFF, 0x7FFF]


@shapes
@mixtures(3)
@activations
@pytest.mark.parametrize("added", [False, True], ids=["alone", "with an addend"])
def test_norm_scale_forward(fast, reference, activation, shape, kinds, added) -> None:
    x = drawn(shape, kinds[0], 1)
    addend = drawn(shape, kinds[1], 2) if added else None
    gamma, beta = (np.random.default_rng(k).standard_normal(shape[1]).astype("f") for k in (3, 4))
    found = fast.norm_scale_forward(
        x, gamma, beta, eps=EPS, activation=activation, addend=addend, out=blank(shape, kinds[2])
    )
    expected = reference.norm_scale_forward(
        wide(x), gamma, beta, eps=EPS, activation=activation,
        addend=None if addend is None else wide(addend),
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert found[1].dtype == found[2].dtype == F32


@shapes
@mixtures(3)
@activations
@pytest.mark.parametrize("fixed", [False, True], ids=["own statistics", "fixed statistics"])
def test_norm_scale_backward(fast, reference, activation, shape, kinds, fixed) -> None:
    dy, x = (drawn(shape, kind, seed) for seed, kind in enumerate(kinds[:2]))
    gamma, beta = (np.random.default_rng(k).standard_normal(shape[1]).astype("f") for k in (3, 4))
    mean, variance = wide(x).mean((0, 2, 3)), wide(x).var((0, 2, 3)) + np.float32(0.1)
    options = {"eps": EPS, "fixed": fixed, "activation": activation}
    found = fast.norm_scale_backward(
        dy, x, gamma, beta, mean, variance, **options, out=blank(shape, kinds[2])
    )
    expected = reference.norm_scale_backward(
        wide(dy), wide(x), gamma, beta, mean, variance, **options
    )
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert found[1].dtype == found[2].dtype == F32


@shapes
@mixtures(2)
def test_batch_norm(fast, reference, shape, kinds) -> None:
    x = drawn(shape, kinds[0], 1)
    found = fast.batch_norm_forward(x, eps=EPS, out=blank(shape, kinds[1]))
    expected = reference.batch_norm_forward(wide(x), eps=EPS)
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    dy = drawn(shape, kinds[1], 2)
    y = drawn(shape, kinds[0], 3)
    for fixed in (False, True):
        options = {"eps": EPS, "fixed": fixed}
        close(
            fast.batch_norm_backward(dy, y, found[2] + 1, **options, out=blank(shape, kinds[0])),
            reference.batch_norm_backward(wide(dy), wide(y), found[2] + 1, **options),
        )


@shapes
@mixtures(2)
def test_scale_and_sums_per_channel(fast, reference, shape, kinds) -> None:
    x, dy = (drawn(shape, kind, seed) for seed, kind in enumerate(kinds))
    gamma, beta = (np.random.default_rng(k).standard_normal(shape[1]).astype("f") for k in (3, 4))
    out = blank(shape, kinds[1])
    close(
        fast.scale_forward(x, gamma, beta, out=out), reference.scale_forward(wide(x), gamma, beta)
    )
    close(
        fast.scale_backward_data(dy, gamma, out=blank(shape, kinds[0])),
        reference.scale_backward_data(wide(dy), gamma),
    )
    found = fast.scale_backward_weights(x, dy, gamma.shape, bias=True)
    expected = reference.scale_backward_weights(wide(x), wide(dy), gamma.shape, bias=True)
    for one, other in zip(found, expected, strict=True):
        assert one is not None
        close(one, other)
        assert one.dtype == F32
    assert fast.channel_sums(x).dtype == F32
    close(fast.channel_sums(x), reference.channel_sums(wide(x)))


@shapes
@pytest.mark.parametrize("kinds", [(F32, F32), (BFLOAT16, BFLOAT16), (F32, BFLOAT16)], ids=str)
def test_factors_of_planes(fast, reference, shape, kinds) -> None:
    x, dy = (drawn(shape, kind, seed) for seed, kind in enumerate(kinds))
    gamma = np.random.default_rng(3).standard_normal(shape[:2]).astype("f")
    found = fast.scale_forward(x, gamma, axis=0, out=blank(shape, kinds[1]))
    close(found, reference.scale_forward(wide(x), gamma, axis=0))
    found = fast.scale_backward_data(dy, gamma, axis=0, out=blank(shape, kinds[0]))
    close(found, reference.scale_backward_data(wide(dy), gamma, axis=0))
    dgamma, _ = fast.scale_backward_weights(x, dy, gamma.shape, 0, bias=False)
    expected, _ = reference.scale_backward_weights(wide(x), wide(dy), gamma.shape, 0, bias=False)
    close(dgamma, expected)
    assert dgamma.dtype == F32
    found = fast.drop_rows(x, 0.3, 7, 5, out=blank(shape, kinds[1]))
    close(found, reference.drop_rows(wide(x), 0.3, 7, 5))


@shapes
@mixtures(2)
@pytest.mark.parametrize("count", [1, 2])
def test_rectified_sums(fast, reference, shape, kinds, count) -> None:
    gradients = [drawn(shape, kinds[0], seed) for seed in range(count)]
    y, x = (drawn(shape, kind, 5 + seed) for seed, kind in enumerate(kinds))
    mean = np.random.default_rng(3).standard_normal(shape[1]).astype("f")
    found = fast.rectified_sums(gradients, y, x, mean, out=blank(shape, kinds[1]))
    expected = reference.rectified_sums([wide(g) for g in gradients], wide(y), wide(x), mean)
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert found[1].dtype == found[2].dtype == F32


@mixtures(2)
@pytest.mark.parametrize("mode", ["MAX", "AVE"])
@pytest.mark.parametrize(
    "window", [((2, 2), (2, 2)), ((2, 1), (3, 2)), ((3, 3), (2, 2), (1, 1)), ((7, 6),)], ids=str
)
@pytest.mark.parametrize("shape", [(7, 3, 7, 6), (2, 97, 7, 6), (16, 64, 7, 6)], ids=str)
def test_pooling(fast, reference, shape, window, mode, kinds) -> None:
    geometry = PoolGeometry(*window, mode=mode)
    x = drawn(shape, kinds[0], 1)
    small = geometry.output_shape(shape)
    places = fast.empty(small, np.int32) if mode == "MAX" else None
    y, found = fast.pool_forward(x, geometry, out=blank(small, kinds[1]), argmax=places)
    expected, theirs = reference.pool_forward(wide(x), geometry)
    close(y, expected)
    if theirs is not None:
        np.testing.assert_array_equal(found, theirs)
        alone, _ = fast.pool_forward(x, geometry, out=blank(small, kinds[1]), argmax=False)
        close(alone, expected)
        rectified, _ = fast.pool_forward(x, geometry, out=blank(small, kinds[1]), rectify=True)
        close(rectified, np.maximum(expected, 0))
    dy = drawn(small, kinds[1], 2)
    close(
        fast.pool_backward(dy, geometry, shape, argmax=found, out=blank(shape, kinds[0])),
        reference.pool_backward(wide(dy), geometry, shape, argmax=theirs),
    )


def in_another_order(x: Array) -> Array:
    """The same images, stored as [N][C][H][W]."""
    return np.array(x, order="C")


@pytest.mark.parametrize("shape", [(7, 3, 5, 4)], ids=str)
@mixtures(3)
def test_images_in_another_order_are_computed_in_float32(fast, reference, shape, kinds) -> None:
    dy, x = (in_another_order(drawn(shape, kind, seed)) for seed, kind in enumerate(kinds[:2]))
    for operation in FORWARD.values():
        if operation is not FORWARD["copy"]:
            out = in_another_order(blank(shape, kinds[2]))
            assert operation(fast, x, out) is out
            close(out, operation(reference, wide(x), blank(shape)))
    for operation in BACKWARD.values():
        out = in_another_order(blank(shape, kinds[2]))
        assert operation(fast, dy, x, out) is out
        close(out, operation(reference, wide(dy), wide(x), blank(shape)))
    geometry = PoolGeometry((2, 2), (2, 2))
    y, places = fast.pool_forward(x, geometry, out=blank(geometry.output_shape(shape), kinds[2]))
    expected, theirs = reference.pool_forward(wide(x), geometry)
    close(y, expected)
    np.testing.assert_array_equal(places, theirs)
    gamma = np.ones(3, np.float32)
    dx, dgamma, _ = fast.norm_scale_backward(
        dy, x, gamma, gamma, gamma, gamma, out=in_another_order(blank(shape, kinds[2]))
    )
    wanted = reference.norm_scale_backward(wide(dy), wide(x), gamma, gamma, gamma, gamma)
    close(dx, wanted[0])
    close(dgamma, wanted[1])
    assert dgamma.dtype == F32


def test_nan_and_infinity_survive_storage(fast) -> None:
    x = drawn((3, 20, 4, 5), BFLOAT16, 1)
    x[1, 2, 3, 4] = np.nan
    x[2, 3, 0, 0] = np.inf
    y = fast.relu_forward(x, out=blank(x.shape, BFLOAT16)).astype(np.float32)
    assert np.isnan(y[1, 2, 3, 4])
    assert y[2, 3, 0, 0] == np.inf
    assert np.isfinite(y).sum() == y.size - 2


@activations
def test_any_number_of_threads_gives_the_same_bits(activation) -> None:
    shape = (13, 20, 9, 3)
    x, addend = (drawn(shape, BFLOAT16, seed) for seed in (1, 2))
    gamma = np.ones(20, np.float32)
    found = [
        cpu(threads).norm_scale_forward(
            x, gamma, gamma, activation=activation, addend=addend,
            statistics=(gamma * 0.1, gamma), out=blank(shape, BFLOAT16),
        )[0].view(np.uint16)
        for threads in (1, 2)
    ]  # fmt: skip
    np.testing.assert_array_equal(*found)
