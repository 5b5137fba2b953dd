"""Depthwise convolution compared with plain float64 loops, with NaN-filled destinations: sizes,
strides, paddings, layouts, threads."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops import Array, ConvGeometry, get_backend
from ops.cpu.codegen.stored import BFLOAT16, FLOAT32, STORED
from ops.cpu.codegen.target import host
from ops.cpu.conv import depthwise as algorithm
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.choose import DATA, FORWARD, WEIGHTS, Chooser
from ops.cpu.conv.depthwise import Depthwise, supports
from ops.cpu.depthwise.blocks import columns_of, strips_of
from ops.cpu.team import operands
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from ops.gradcheck import check_gradient
from ops.reference import depthwise
from tests.ops.cpu.conftest import cpu
from tests.ops.cpu.conv_loops import LAYOUTS, case, convolved, image_by_image, in_memory
from tests.ops.cpu.narrow import passes_with_narrow_vectors

TEAMS = {size: Team(size) for size in (1, 2, 3)}


def channelwise(n: int, c: int, size: tuple[int, int], kernel: int, **windows: int) -> ConvShape:
    """A depthwise convolution with square windows. `windows`: stride, pad, dilation."""
    pairs = {name: (value, value) for name, value in windows.items()}
    return ConvShape((n, c, *size), c, ConvGeometry((kernel, kernel), **pairs, groups=c))


def grouped(
    n: int, c: int, size: tuple[int, int], kernel: int, each: int, **windows: int
) -> ConvShape:
    """A convolution with square windows and `each` channels and outputs in a group."""
    pairs = {name: (value, value) for name, value in windows.items()}
    return ConvShape((n, c, *size), c, ConvGeometry((kernel, kernel), **pairs, groups=c // each))


SHAPES = [
    channelwise(2, 24, (9, 11), 3, pad=1),
    channelwise(3, 40, (12, 14), 3, stride=2, pad=1),
    channelwise(2, 16, (13, 15), 3, stride=2, pad=1),
    channelwise(2, 20, (7, 7), 5, pad=2),
    channelwise(2, 33, (14, 14), 5, stride=2, pad=2),
    channelwise(1, 16, (3, 19), 7, pad=3),
    channelwise(1, 7, (8, 9), 3),
    channelwise(2, 64, (1, 1), 3, pad=1),
    channelwise(1, 5, (10, 10), 3, stride=3, pad=1),
    channelwise(2, 17, (11, 10), 3, stride=4, pad=2),  # no output reads some pixels
    channelwise(1, 9, (10, 10), 1, stride=2),
    channelwise(1, 8, (4, 4), 5, pad=4),
    channelwise(1, 8, (5, 5), 3, pad=4),  # some outputs read only padding
    channelwise(2, 18, (12, 13), 3, pad=2, dilation=2),
    ConvShape((3, 21, 9, 8), 21, ConvGeometry((3, 5), (2, 3), (1, 2), groups=21)),
    ConvShape((2, 19, 8, 11), 19, ConvGeometry((1, 4), (1, 1), (0, 2), groups=19)),
    grouped(3, 40, (9, 8), 3, min(8, host().lanes), pad=1),
    grouped(2, 24, (9, 10), 3, 4, pad=1, stride=2),
    grouped(1, 18, (6, 7), 3, 2, pad=2, dilation=2),
]
GROUPED = SHAPES[-3]
# two groups of channels, several chunks of images, and results that bypass the caches
LARGE = channelwise(40, 272, (6, 9), 3, pad=1)
Results = tuple[Array, Array, Array]


def results(
    shape: ConvShape,
    threads: int,
    layout: Callable[[Array], Array],
    images: slice = slice(None),
    *,
    x_type: np.dtype[Any] = FLOAT32,
    y_type: np.dtype[Any] = FLOAT32,
) -> Results:
    """y, dx and dw, of some images of the case, for x and y and their gradients that are stored
    so."""
    given = case(shape)
    x = layout(given.x[images].astype(x_type))
    dy = layout(given.dy[images].astype(y_type))
    w, b = given.w.astype(np.float32), given.b.astype(np.float32)
    some = ConvShape(x.shape, shape.outputs, shape.geometry)
    place = Workspace()
    made = Depthwise(some, TEAMS[threads], place)
    y, dx = (layout(np.full(array.shape, np.nan, array.dtype)) for array in (dy, x))
    dw = np.full(w.shape, np.nan, np.float32)
    made.forward(x, w, b, y)
    made.backward_data(dy, w, dx)
    made.backward_weights(x, dy, dw)
    assert place.size <= made.workspace_bytes
    return y, dx, dw


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=2e-6 * max(1.0, float(np.abs(expected).max()))
    )


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_pass_is_the_sum_of_its_definition(shape, layout, threads) -> None:
    given = case(shape)
    for found, expected in zip(
        results(shape, threads, layout), (given.y, given.dx, given.dw), strict=True
    ):
        close(found, expected)


@pytest.mark.parametrize("layout", [in_memory, image_by_image])
@pytest.mark.parametrize("shape", [*SHAPES[:5], GROUPED, LARGE], ids=str)
def test_the_number_of_threads_changes_no_bit(shape, layout) -> None:
    one = results(shape, 1, layout)
    for threads in (2, 3):
        for found, expected in zip(results(shape, threads, layout), one, strict=True):
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("x_type", STORED, ids=str)
@pytest.mark.parametrize("y_type", STORED, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_images_in_bfloat16_give_the_results_of_their_float32_numbers(
    shape, layout, x_type, y_type
) -> None:
    given = case(shape)
    x, dy = (
        array.astype(kind).astype(np.float64)
        for array, kind in ((given.x, x_type), (given.dy, y_type))
    )
    expected = convolved(shape, x, given.w, given.b, dy)
    one, *others = (
        results(shape, threads, layout, x_type=x_type, y_type=y_type) for threads in TEAMS
    )
    for found, right in zip(one, (expected.y, expected.dx, expected.dw), strict=True):
        rounding = 2.0**-8 if found.dtype == BFLOAT16 else 0.0
        bound = rounding * np.abs(right) + 2e-6 * max(1.0, float(np.abs(right).max()))
        assert (np.abs(found.astype(np.float64) - right) <= bound).all()
    for other in others:
        for found, same in zip(other, one, strict=True):
            assert found.tobytes() == same.tobytes()


@pytest.mark.parametrize("layout", [in_memory, image_by_image])
def test_an_image_has_the_same_bits_in_any_batch(layout) -> None:
    y, dx, _ = results(LARGE, 2, layout)
    for part in (slice(0, 1), slice(3, 30)):
        some_y, some_dx, _ = results(LARGE, 3, layout, part)
        np.testing.assert_array_equal(some_y, y[part])
        np.testing.assert_array_equal(some_dx, dx[part])


@pytest.mark.parametrize("past", [False, True])
def test_large_results_are_the_same_past_the_caches(past, monkeypatch) -> None:
    monkeypatch.setattr(operands, "LARGE", 1 if past else 1 << 62)
    given = case(LARGE)
    for found, expected in zip(
        results(LARGE, 2, in_memory), (given.y, given.dx, given.dw), strict=True
    ):
        close(found, expected)


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_outputs_are_rectified_on_request_and_nan_is_not_hidden(shape) -> None:
    given = case(shape)
    made = Depthwise(shape, TEAMS[2], Workspace())
    x = in_memory(given.x.astype(np.float32))
    w = given.w.astype(np.float32)
    y = in_memory(np.full(given.y.shape, np.nan, np.float32))
    made.forward(x, w, None, y, 0.0)
    close(y, np.maximum(given.y - given.b[:, None, None], 0))
    w[0] = np.nan
    made.forward(x, w, None, y, 0.0)
    assert np.isnan(y[:, 0]).all()
    assert np.isfinite(y[:, 1:]).all()


def test_channels_next_to_the_images_are_neither_read_nor_written() -> None:
    shape = SHAPES[0]
    n, c, high, wide = shape.out_shape
    block = np.full((high, wide, n, c + 8), 77, np.float32)
    given = case(shape)
    made = Depthwise(shape, TEAMS[2], Workspace())
    x = LAYOUTS[2](given.x.astype(np.float32))  # between channels of NaN
    y = block[..., 5 : 5 + c].transpose(2, 3, 0, 1)
    made.forward(x, given.w.astype(np.float32), given.b.astype(np.float32), y)
    close(y, given.y)
    assert (block[..., :5] == 77).all()
    assert (block[..., 5 + c :] == 77).all()


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_gradients_equal_finite_differences(shape) -> None:
    ops = cpu(2)
    g = shape.geometry
    given = case(shape)
    single = [in_memory(given.x), given.w, given.b]

    def forward(x: Array, w: Array, b: Array) -> Array:
        return ops.depthwise_forward(x, w, b, g)  # float64: the reference computes it

    def backward(dy: Array, x: Array, w: Array, b: Array) -> list[Array]:
        dy, x, w = (array.astype(np.float32) for array in (dy, x, w))
        dx = ops.depthwise_backward_data(in_memory(dy), w, g, x.shape)
        return [
            dx.astype(np.float64),
            *(
                array.astype(np.float64)
                for array in ops.depthwise_backward_weights(
                    in_memory(x), in_memory(dy), g, w.shape, bias=True
                )
            ),
        ]

    check_gradient(forward, backward, *single, tolerance=1e-4)


@pytest.mark.parametrize("of_depthwise", [False, True])
def test_both_kinds_of_layer_use_the_kernels_and_not_the_reference(
    of_depthwise, monkeypatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the reference was called")

    for name in ("forward", "backward_data", "backward_weights"):
        monkeypatch.setattr(depthwise, name, refuse)
    shape = SHAPES[1]
    given = case(shape)
    ops = get_backend("cpu", threads=2)
    kind = "depthwise" if of_depthwise else "conv"
    x, dy = (in_memory(array.astype(np.float32)) for array in (given.x, given.dy))
    w, g = given.w.astype(np.float32), shape.geometry
    close(getattr(ops, f"{kind}_forward")(x, w, given.b.astype(np.float32), g), given.y)
    close(getattr(ops, f"{kind}_backward_data")(dy, w, g, x.shape), given.dx)
    dw, db = getattr(ops, f"{kind}_backward_weights")(x, dy, g, w.shape, bias=True)
    close(dw, given.dw)
    close(db, given.dy.sum((0, 2, 3)))
    scratch = getattr(ops, f"{kind}_scratch")(x.shape, w.shape, g, training=True)
    assert scratch == Depthwise(shape, TEAMS[2], Workspace()).workspace_bytes


def test_the_kernels_take_groups_of_few_channels_with_as_many_outputs() -> None:
    chooser = Chooser(Team(1), Workspace(), "exact")
    for direction in (FORWARD, DATA, WEIGHTS):
        assert isinstance(chooser(SHAPES[0], direction), Depthwise)
    geometry = ConvGeometry((3, 3), groups=8)
    assert not supports(ConvShape((1, 8, 9, 9), 16, geometry))  # two outputs for each channel
    assert supports(ConvShape((1, 16, 9, 9), 16, geometry))
    assert not supports(ConvShape((1, 24, 9, 9), 24, geometry))  # 3 do not divide a vector
    assert not supports(ConvShape((1, 8, 9, 9), 8, ConvGeometry((3, 3))))
    assert not supports(channelwise(1, 4, (9, 9), 3))  # fewer channels than half a vector
    assert not supports(channelwise(1, 8, (9, 9), 3, stride=2, dilation=2))


def test_nothing_is_allocated_once_a_pass_has_run() -> None:
    given = case(LARGE)
    made = Depthwise(LARGE, TEAMS[2], Workspace())
    x, dy = (in_memory(array.astype(np.float32)) for array in (given.x, given.dy))
    w = given.w.astype(np.float32)
    y, dx, dw = in_memory(given.y.astype(np.float32)), in_memory(x), np.empty_like(w)

    def step() -> None:
        made.forward(x, w, None, y)
        made.backward_data(dy, w, dx)
        made.backward_weights(x, dy, dw)

    step()
    tracemalloc.start()
    try:
        step()
        assert tracemalloc.get_traced_memory()[1] < w.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("outputs", range(1, 40))
def test_blocks_cover_a_row_with_few_columns_twice(outputs) -> None:
    for step in (1, 2, 3):
        columns = columns_of(outputs, step)
        assert columns % step == 0
        assert columns <= max(8, step)
        assert strips_of(outputs, columns) * columns - outputs < max(columns, step)
        assert columns - step < outputs
    assert columns_of(112) == columns_of(56) == columns_of(7) == 7
    assert columns_of(32) == columns_of(16) == 8


def test_parts_of_a_gradient_depend_on_the_shape_alone_and_take_less_memory_than_the_images() -> (
    None
):
    for shape in (*SHAPES, LARGE, channelwise(16, 1024, (7, 7), 3, pad=1)):
        made = [Depthwise(shape, team, Workspace()) for team in TEAMS.values()]
        sizes = {one.workspace_bytes for one in made}
        assert len(sizes) == 1
        assert sizes.pop() <= max(
            4 * np.prod(shape.out_shape) // algorithm.WORTH * 2,
            4 * np.prod(shape.weight_shape) + 64,
        )


@pytest.mark.slow
@pytest.mark.skipif(host().bits <= 256, reason="this run itself has narrow vectors")
@pytest.mark.parametrize("bits", [128, 256])
def test_narrow_vectors_of_these_bits_give_the_same_results(bits) -> None:
    path = "tests/ops/cpu/test_depthwise.py"
    passes_with_narrow_vectors(path, "definition or threads or batch", bits)
