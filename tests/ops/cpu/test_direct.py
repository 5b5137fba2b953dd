"""Direct convolution compared with plain float64 loops, with NaN-filled destinations, in shapes and
layouts of every kind."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ops import Array, ConvGeometry
from ops.cpu.codegen.target import host
from ops.cpu.codegen.width import VARIABLE
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.direct import Direct, FirstLayer
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from tests.ops.cpu.conv_loops import LAYOUTS, case, in_memory, row_by_row

TEAMS = {size: Team(size) for size in (1, 2)}
NARROW = "256"


def plain(n: int, c: int, size: tuple[int, int], k: int, kernel: int, **windows: int) -> ConvShape:
    """A convolution with square windows. `windows` may have stride, pad, dilation and groups."""
    pairs = {name: (value, value) for name, value in windows.items() if name != "groups"}
    return ConvShape(
        (n, c, *size), k, ConvGeometry((kernel, kernel), **pairs, groups=windows.get("groups", 1))
    )


SHAPES = [
    plain(1, 1, (5, 6), 1, 1),
    plain(7, 3, (9, 8), 20, 3, pad=1),
    plain(13, 20, (6, 5), 50, 3),
    plain(1, 50, (7, 9), 97, 3, pad=1),
    plain(7, 97, (4, 4), 50, 1),
    plain(13, 20, (7, 8), 97, 1, stride=2),
    plain(1, 97, (5, 5), 20, 1, pad=1),
    plain(7, 16, (11, 12), 32, 5, pad=2, stride=2),
    plain(2, 6, (13, 12), 9, 3, pad=3, dilation=2),
    plain(7, 6, (9, 9), 10, 3, pad=1, stride=3, dilation=2, groups=2),
    plain(13, 20, (5, 6), 60, 3, pad=1, groups=4),
    plain(8, 5, (6, 6), 5, 3, pad=1, groups=5),
    plain(3, 4, (23, 21), 7, 7, pad=3, stride=2),
    plain(8, 180, (5, 5), 33, 5, pad=2),  # channels are summed block by block
    ConvShape((7, 5, 8, 11), 18, ConvGeometry((1, 3), (2, 1), (0, 2), (1, 2))),
    # some rows see only padding
    ConvShape((1, 5, 3, 30), 18, ConvGeometry((3, 2), (1, 2), (4, 0))),
    ConvShape((40, 8, 2, 3), 65, ConvGeometry((2, 3), (1, 1), (1, 1))),
    # in a gradient of weights, dy is one panel and is read without a copy
    plain(33, 9, (6, 7), 16, 3, pad=1),
    plain(33, 3, (9, 8), 24, 2),
    plain(9, 5, (9, 8), 37, 3, pad=1, stride=2),
    plain(64, 48, (20, 18), 48, 1),  # results bypass the caches
    # threads divide the pixels over which gradients of weights are summed
    plain(16, 42, (14, 13), 26, 1, groups=2),
]
FIRST = [
    plain(20, 3, (18, 17), 32, 5, pad=2),
    plain(7, 3, (19, 23), 20, 5, pad=2),
    plain(1, 1, (28, 28), 20, 5),
    plain(13, 3, (23, 23), 97, 11, stride=4),
    plain(2, 4, (15, 16), 8, 7, pad=3, stride=2),
]


def nothing(like: Array, layout: Callable[[Array], Array]) -> Array:
    return layout(np.full(like.shape, np.nan, np.float32))


def operand(x: Array, layout: Callable[[Array], Array]) -> Array:
    return layout(x.astype(np.float32))


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=1e-5 * max(1.0, float(np.abs(expected).max()))
    )


def results(
    shape: ConvShape, threads: int, layout: Callable[[Array], Array]
) -> tuple[Array, Array, Array]:
    """y, dx and dw."""
    given = case(shape)
    made = Direct(shape, TEAMS[threads], Workspace())
    x = operand(given.x, layout)
    dy = operand(given.dy, layout)
    w = given.w.astype(np.float32)
    b = given.b.astype(np.float32)
    y = nothing(given.y, layout)
    dx = nothing(given.x, layout)
    dw = np.full(w.shape, np.nan, np.float32)
    made.forward(x, w, b, y)
    made.backward_data(dy, w, dx)
    made.backward_weights(x, dy, dw)
    return y, dx, dw


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_pass_is_the_sum_of_its_definition(shape, layout, threads) -> None:
    given = case(shape)
    for found, expected in zip(
        results(shape, threads, layout), (given.y, given.dx, given.dw), strict=True
    ):
        close(found, expected)


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("layout", [*LAYOUTS, np.ascontiguousarray])
@pytest.mark.parametrize("shape", FIRST, ids=str)
def test_the_layer_that_reads_the_data_takes_images_in_any_order(shape, layout, threads) -> None:
    given = case(shape)
    made = FirstLayer(shape, TEAMS[threads], Workspace())
    y = nothing(given.y, in_memory)
    dw = np.full(given.w.shape, np.nan, np.float32)
    x = operand(given.x, layout)
    made.forward(x, given.w.astype(np.float32), given.b.astype(np.float32), y)
    made.backward_weights(x, operand(given.dy, in_memory), dw)
    close(y, given.y)
    close(dw, given.dw)


@pytest.mark.parametrize("shape", SHAPES[:8], ids=str)
def test_outputs_are_rectified_on_request_and_nan_is_not_hidden(shape) -> None:
    given = case(shape)
    made = Direct(shape, TEAMS[1], Workspace())
    x = operand(given.x, in_memory)
    w = given.w.astype(np.float32)
    y = nothing(given.y, in_memory)
    made.forward(x, w, None, y, 0.0)
    close(y, np.maximum(given.y - given.b[None, :, None, None], 0))
    w[0] = np.nan
    made.forward(x, w, None, y, 0.0)
    touched = shape.geometry.pad == (0, 0)
    assert np.isnan(y[:, 0]).all() if touched else np.isnan(y[:, 0]).any()
    assert np.isfinite(y[:, 1:]).all()


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_repeat_to_the_last_bit(shape, threads) -> None:
    for once, again in zip(
        results(shape, threads, in_memory), results(shape, threads, in_memory), strict=True
    ):
        np.testing.assert_array_equal(once, again)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_only_rounding_depends_on_the_number_of_threads(shape) -> None:
    for one, two in zip(results(shape, 1, in_memory), results(shape, 2, in_memory), strict=True):
        close(one, two.astype(np.float64))


@pytest.mark.parametrize("shape", [*SHAPES, *FIRST], ids=str)
@pytest.mark.parametrize("threads", TEAMS)
def test_no_pass_takes_more_scratch_than_announced(shape, threads) -> None:
    given = case(shape)
    place = Workspace()
    made = FirstLayer(shape, TEAMS[threads], place)
    w = given.w.astype(np.float32)
    orders = *LAYOUTS, row_by_row
    for of_x, of_y in product((*orders, np.ascontiguousarray), orders):
        x = operand(given.x, of_x)
        dy = operand(given.dy, of_y)
        made.forward(x, w, None, nothing(given.y, of_y))
        made.backward_weights(x, dy, np.empty(w.shape, np.float32))
        made.backward_data(dy, w, nothing(given.x, in_memory))
    assert place.size <= made.workspace_bytes


@pytest.mark.parametrize(
    "shape", [plain(16, 32, (14, 14), 48, 3, pad=1), plain(16, 64, (14, 14), 48, 1)], ids=str
)
def test_nothing_is_allocated_once_a_pass_has_run(shape) -> None:
    given = case(shape)
    made = Direct(shape, TEAMS[2], Workspace())
    x = operand(given.x, in_memory)
    dy = operand(given.dy, in_memory)
    w = given.w.astype(np.float32)
    y = nothing(given.y, in_memory)
    dx = nothing(given.x, in_memory)
    dw = np.empty_like(w)

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


def test_a_channel_next_to_the_images_is_not_touched() -> None:
    shape = SHAPES[1]
    given = case(shape)
    made = Direct(shape, TEAMS[2], Workspace())
    n, k, high, wide = shape.out_shape
    block = np.full((high, wide, n, k + 8), 77, np.float32)
    y = block[..., 5 : 5 + k].transpose(2, 3, 0, 1)
    made.forward(operand(given.x, in_memory), given.w.astype(np.float32), None, y)
    assert (block[..., :5] == 77).all()
    assert (block[..., 5 + k :] == 77).all()


@pytest.mark.slow
@pytest.mark.skipif(host().bits <= int(NARROW), reason="this run itself has narrow vectors")
def test_narrow_vectors_give_the_same_results() -> None:
    root = Path(__file__).parents[3]
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(Path(__file__).relative_to(root)),
        "-k",
        "definition or any_order",
    ]
    ran = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, VARIABLE: NARROW},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
