"""Convolution on tiles of bfloat16 compared with float64 sums over rounded operands, with NaN-filled
destinations, in shapes and layouts of every kind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops import Array, ConvGeometry
from ops.cpu.codegen.amx import has_amx
from ops.cpu.codegen.stored import FLOAT32, STORED
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from ops.cpu.tiled.convolution import Tiled
from ops.cpu.tiled.patched import Patched
from tests.ops.cpu.conv_loops import LAYOUTS, Case, convolved, in_memory, operands
from tests.ops.cpu.test_bfloat16_product import rounded
from tests.ops.cpu.test_direct import SHAPES, plain

TEAMS = {size: Team(size) for size in (1, 2, 3)}
needs_tiles = pytest.mark.skipif(not has_amx(), reason="needs AMX-BF16 and its permission")
MORE = [
    plain(16, 64, (14, 13), 32, 3, pad=1),  # whole tiles
    plain(8, 48, (9, 9), 40, 3, pad=1, stride=2),
    plain(24, 32, (30, 30), 96, 1),  # several units of work
    plain(48, 64, (7, 14), 16, 5, pad=2),  # the images of a batch are several units
    plain(1, 24, (40, 41), 16, 7, pad=3, stride=2),
    plain(6, 128, (12, 12), 64, 3, pad=2, dilation=2, groups=4),
    plain(2, 256, (7, 7), 320, 3, pad=1),  # several parts of panels share a unit
    plain(5, 33, (6, 6), 17, 3, stride=3),  # the stride leaves pixels out
    ConvShape((3, 64, 1, 50), 64, ConvGeometry((1, 5), (1, 2), (0, 2))),
]
# shares of the channels of a gradient of weights: with one unit of work for all, and with several
SHARED = [plain(24, 1024, (7, 7), 64, 1), plain(32, 1024, (14, 14), 32, 1)]
# images that kernels read where they lie: a last block of pixels that begins earlier, two groups,
# several parts of panels and threads for one unit; then blocks of images, whose taps meet the
# padding, step over pixels, reach past all pixels, and belong to several units; last, gradients by
# pixels that no tap reaches, in all rows or columns of a class
IN_PLACE = [
    plain(5, 32, (3, 3), 20, 1),
    plain(7, 128, (5, 3), 64, 1, groups=2),
    plain(32, 64, (4, 2), 96, 1),
    plain(3, 512, (11, 1), 640, 1),
    plain(32, 32, (5, 6), 300, 3, pad=1),
    plain(64, 64, (7, 4), 64, 3, pad=1, stride=2, groups=2),
    plain(32, 64, (5, 3), 32, 5, pad=4, dilation=2),
    plain(64, 256, (4, 16), 32, 3, pad=1),
    plain(32, 32, (6, 5), 32, 1, stride=3),
    plain(32, 32, (6, 5), 32, 2, stride=3),
    ConvShape((32, 32, 5, 4), 64, ConvGeometry((1, 2), (2, 1), (2, 3))),
]
# images with few channels: patches of less than a chunk, of several, and runs as long as a vector
FEW = [
    plain(3, 3, (20, 21), 20, 5, pad=2),
    plain(4, 1, (28, 28), 20, 5),
    plain(2, 3, (33, 40), 64, 7, pad=3, stride=2),
    plain(17, 3, (12, 12), 32, 3, pad=1, stride=2),  # several units of work
    plain(1, 3, (9, 8), 24, 2),
    plain(2, 4, (24, 30), 96, 11, stride=4),
    ConvShape((2, 2, 9, 20), 17, ConvGeometry((2, 16), (1, 3), (1, 2), (3, 1))),
    ConvShape((3, 1, 4, 1), 40, ConvGeometry((3, 1), (2, 1), (1, 0))),
]
Results = tuple[Array, Array, Array]


def plane_by_plane(x: Array) -> Array:
    """The same values stored as [N][C][H][W]."""
    return np.ascontiguousarray(x)


def every_other_column(x: Array) -> Array:
    """The same values stored as [N][C][H][W], with a number between two columns."""
    wide: Array = np.repeat(x, 2, axis=3)[..., ::2]
    return wide


def of_patches(
    shape: ConvShape,
    threads: int,
    layout: Callable[[Array], Array],
    *,
    x_type: np.dtype[Any] = FLOAT32,
    y_type: np.dtype[Any] = FLOAT32,
) -> tuple[Array, Array]:
    """y and dw by patches, for x in a layout, and for x, y and dy that are stored so."""
    x, w, b, dy = operands(shape)
    made = Patched(shape.in_shape, shape.outputs, shape.geometry, TEAMS[threads], Workspace())
    y = in_memory(np.full(dy.shape, np.nan, y_type))
    dw = np.full(w.shape, np.nan, np.float32)
    x = layout(x.astype(x_type))
    made.forward(x, w, b, y)
    made.backward_weights(x, in_memory(dy.astype(y_type)), dw)
    return y, dw


@functools.cache
def exact(shape: ConvShape) -> tuple[Case, Results]:
    """The results for rounded operands, and the most by which sums in float32 may differ: k + 2
    roundings of the sum of absolute values."""
    x, w, b, dy = operands(shape)
    found = convolved(shape, rounded(x), rounded(w), b.astype(np.float64), rounded(dy))
    sizes = convolved(shape, *(np.abs(part) for part in (found.x, found.w, found.b, found.dy)))
    taps = shape.geometry.kernel[0] * shape.geometry.kernel[1]
    n, k, high, wide = shape.out_shape
    groups = shape.geometry.groups
    lengths = taps * shape.weight_shape[1], taps * k // groups, n * high * wide
    parts = (sizes.y, sizes.dx, sizes.dw)
    y, dx, dw = (
        (length + 2) * 2.0**-23 * part for length, part in zip(lengths, parts, strict=True)
    )
    return found, (y, dx, dw)


def results(
    shape: ConvShape,
    threads: int,
    layout: Callable[[Array], Array],
    floor: float = -np.inf,
    *,
    x_type: np.dtype[Any] = FLOAT32,
    y_type: np.dtype[Any] = FLOAT32,
) -> Results:
    """y, dx and dw, for x and y and their gradients that are stored so."""
    x, w, b, dy = operands(shape)
    made = Tiled(shape.in_shape, shape.outputs, shape.geometry, TEAMS[threads], Workspace())
    y = layout(np.full(dy.shape, np.nan, y_type))
    dx = layout(np.full(x.shape, np.nan, x_type))
    dw = np.full(w.shape, np.nan, np.float32)
    x, dy = layout(x.astype(x_type)), layout(dy.astype(y_type))
    made.forward(x, w, b, y, floor)
    made.backward_data(dy, w, dx)
    made.backward_weights(x, dy, dw)
    return y, dx, dw


@needs_tiles
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [*SHAPES, *MORE, *SHARED], ids=str)
def test_every_pass_is_the_sum_over_rounded_operands(shape, layout) -> None:
    found, bounds = exact(shape)
    for result, expected, bound in zip(
        results(shape, 1, layout), (found.y, found.dx, found.dw), bounds, strict=True
    ):
        assert (np.abs(result - expected) <= bound).all()


@needs_tiles
@pytest.mark.parametrize("shape", [*SHAPES, *MORE, *SHARED], ids=str)
def test_every_pass_has_the_same_bits_for_every_number_of_threads(shape) -> None:
    one, *others = (results(shape, threads, in_memory) for threads in TEAMS)
    for other in others:
        for first, second in zip(one, other, strict=True):
            assert first.tobytes() == second.tobytes()


@needs_tiles
@pytest.mark.parametrize("x_type", STORED, ids=str)
@pytest.mark.parametrize("y_type", STORED, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [*SHAPES, *MORE, *IN_PLACE], ids=str)
def test_images_in_bfloat16_give_the_results_of_float32_rounded_once(
    shape, layout, x_type, y_type
) -> None:
    """An operand is rounded while it is read or was rounded before, so all bits agree."""
    expected = results(shape, 1, in_memory, 0.0)
    for threads in TEAMS:
        found = results(shape, threads, layout, 0.0, x_type=x_type, y_type=y_type)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other.astype(one.dtype))


@needs_tiles
@pytest.mark.parametrize("shape", MORE[:3], ids=str)
def test_outputs_on_tiles_are_rectified_on_request_and_nan_is_not_hidden(shape) -> None:
    found, bounds = exact(shape)
    y, _, _ = results(shape, 1, in_memory, 0.0)
    assert (np.abs(y - np.maximum(found.y, 0)) <= bounds[0]).all()
    x, w, _, _ = operands(shape)
    w = w.copy()
    w[0] = np.nan
    made = Tiled(shape.in_shape, shape.outputs, shape.geometry, TEAMS[1], Workspace())
    y = in_memory(np.zeros(shape.out_shape, np.float32))
    made.forward(in_memory(x), w, None, y, 0.0)
    assert np.isnan(y[:, 0]).all()
    assert np.isfinite(y[:, 1:]).all()


@needs_tiles
@pytest.mark.parametrize("stride", (1, 2))
def test_a_nan_reaches_the_results_that_read_it_and_the_gradients_of_its_channel(stride) -> None:
    shape = plain(3, 20, (9, 9), 40, 3, pad=1, stride=stride)
    x, w, _, dy = operands(shape)
    x, dy = x.copy(), dy.copy()
    x[1, 7, 0, 8] = np.nan
    made = Tiled(shape.in_shape, shape.outputs, shape.geometry, TEAMS[2], Workspace())
    y = in_memory(np.zeros(shape.out_shape, np.float32))
    made.forward(in_memory(x), w, None, y)
    dw = np.zeros(w.shape, np.float32)
    made.backward_weights(in_memory(x), in_memory(dy), dw)
    with np.errstate(invalid="ignore"):
        expected = convolved(shape, x, w, np.zeros(shape.outputs), dy)
    assert (np.isnan(y) == np.isnan(expected.y)).all()
    assert np.isnan(dw[np.isnan(expected.dw)]).all()
    assert np.isfinite(np.delete(dw, 7, axis=1)).all()


@needs_tiles
def test_nothing_is_written_beside_the_results_of_tiles() -> None:
    shape = plain(5, 24, (7, 7), 20, 3, pad=1)
    x, w, b, _ = operands(shape)
    n, k, high, wide = shape.out_shape
    memory = np.full((high, wide, n, k + 12), 7, np.float32)
    y = memory[..., 6 : 6 + k].transpose(2, 3, 0, 1)
    made = Tiled(shape.in_shape, shape.outputs, shape.geometry, TEAMS[1], Workspace())
    made.forward(in_memory(x), w, b, y)
    y[...] = 7
    assert (memory == 7).all()


@needs_tiles
@pytest.mark.parametrize("layout", [*LAYOUTS, plane_by_plane, every_other_column])
@pytest.mark.parametrize("shape", FEW, ids=str)
def test_patches_of_few_channels_give_the_sums_over_rounded_operands(shape, layout) -> None:
    found, (y_bound, _, dw_bound) = exact(shape)
    y, dw = of_patches(shape, 1, layout)
    assert (np.abs(y - found.y) <= y_bound).all()
    assert (np.abs(dw - found.dw) <= dw_bound).all()


@needs_tiles
@pytest.mark.parametrize("x_type", STORED, ids=str)
@pytest.mark.parametrize("y_type", STORED, ids=str)
@pytest.mark.parametrize("shape", FEW, ids=str)
def test_patches_have_the_same_bits_for_every_number_of_threads_and_type(
    shape, x_type, y_type
) -> None:
    expected = of_patches(shape, 1, plane_by_plane)
    for threads in TEAMS:
        found = of_patches(shape, threads, plane_by_plane, x_type=x_type, y_type=y_type)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other.astype(one.dtype))


@needs_tiles
def test_a_nan_reaches_only_the_patches_that_hold_it() -> None:
    shape = plain(3, 3, (12, 15), 40, 5, pad=2)
    x, w, _, dy = operands(shape)
    x = x.copy()
    x[1, 2, 4, 14] = np.nan
    made = Patched(shape.in_shape, shape.outputs, shape.geometry, TEAMS[2], Workspace())
    y = in_memory(np.zeros(shape.out_shape, np.float32))
    made.forward(x, w, None, y)
    dw = np.zeros(w.shape, np.float32)
    made.backward_weights(x, in_memory(dy), dw)
    with np.errstate(invalid="ignore"):
        expected = convolved(shape, x, w, np.zeros(shape.outputs), dy)
    assert (np.isnan(y) == np.isnan(expected.y)).all()
    assert (np.isnan(dw) == np.isnan(expected.dw)).all()
