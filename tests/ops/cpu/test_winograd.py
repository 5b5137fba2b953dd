"""Winograd convolution compared with float64 loops, with NaN-filled destinations, for shapes and
layouts of every kind."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ops import Array, ConvGeometry
from ops.cpu.codegen.target import host
from ops.cpu.codegen.width import VARIABLE
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.toom_cook import MODES
from ops.cpu.conv.winograd import Winograd, supports
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from tests.ops.cpu.conv_loops import LAYOUTS, case, in_memory

TEAMS = {size: Team(size) for size in (1, 2)}
NARROW = "256"
# The largest error relative to the largest value, forward and backward by data. Gradients of
# weights are sums over a few tiles here and stay within the same bounds.
BOUNDS = {
    "F(2x2,3x3)": 2e-6,
    "F(4x4,3x3)": 1e-5,
    "F(5x5,3x3)": 5e-5,
    "F(6x6,3x3)": 5e-5,
    "F(2x2,5x5)": 1e-5,
    "F(4x4,5x5)": 5e-5,
}
ALIKE = 5e-5  # if all numbers are equal, their rounding errors are equal too, and add up


def plain(
    n: int, c: int, size: tuple[int, int], k: int, pad: int, groups: int = 1
) -> Callable[[int], ConvShape]:
    """A function that makes the shape from the kernel, the only part still missing."""
    return functools.partial(_shape, n, c, size, k, pad, groups)


def _shape(
    n: int, c: int, size: tuple[int, int], k: int, pad: int, groups: int, r: int
) -> ConvShape:
    return ConvShape((n, c, *size), k, ConvGeometry((r, r), pad=(pad, pad), groups=groups))


PLAIN = {
    "one of everything": plain(1, 1, (5, 5), 1, 0),
    "less than a tile": plain(7, 3, (5, 6), 20, 0),
    "padded": plain(13, 20, (9, 8), 50, 1),
    "many channels": plain(1, 50, (7, 9), 97, 2),
    "more channels than outputs": plain(7, 97, (8, 5), 20, 1),
    "wide": plain(3, 3, (5, 23), 3, 2),
    "high": plain(8, 20, (21, 5), 33, 1),
    "groups": plain(7, 40, (10, 7), 34, 1, 2),
    "a group for each channel": plain(4, 5, (8, 8), 5, 1, 5),
    "a whole tile": plain(16, 32, (8, 8), 48, 0),
    "padded by more than the kernel needs": plain(2, 6, (6, 7), 18, 4),
}
CASES = [(name, mode) for name in PLAIN for mode in MODES]


def shape_of(name: str, mode: str) -> ConvShape:
    shape: ConvShape = PLAIN[name](MODES[mode].r)
    return shape


def results(
    name: str, mode: str, threads: int, layout: Callable[[Array], Array], floor: float
) -> list[Array]:
    """y, dx and dw."""
    shape = shape_of(name, mode)
    given = case(shape)
    made = Winograd(shape, TEAMS[threads], Workspace(), mode=mode)
    x = layout(given.x.astype(np.float32))
    dy = layout(given.dy.astype(np.float32))
    w = given.w.astype(np.float32)
    b = given.b.astype(np.float32)
    y, dx = (layout(np.full(like.shape, np.nan, np.float32)) for like in (given.y, given.x))
    dw = np.full(w.shape, np.nan, np.float32)
    made.forward(x, w, b, y, floor)
    made.backward_data(dy, w, dx)
    made.backward_weights(x, dy, dw)
    return [y, dx, dw]


def close(found: Array, expected: Array, bound: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound * float(np.abs(expected).max()))


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_every_pass_is_the_sum_of_its_definition_within_the_bound_of_its_mode(
    name, mode, layout, threads
) -> None:
    given = case(shape_of(name, mode))
    found = results(name, mode, threads, layout, float("-inf"))
    for one, expected in zip(found, (given.y, given.dx, given.dw), strict=True):
        close(one, expected, BOUNDS[mode])


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_results_repeat_to_the_last_bit(name, mode, threads) -> None:
    once, again = (results(name, mode, threads, in_memory, 0.0) for _ in range(2))
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mode", MODES)
def test_outputs_are_rectified_on_request_and_nan_is_not_hidden(mode) -> None:
    shape = shape_of("padded", mode)
    given = case(shape)
    made = Winograd(shape, TEAMS[1], Workspace(), mode=mode)
    x = in_memory(given.x.astype(np.float32))
    w = given.w.astype(np.float32)
    y = in_memory(np.full(given.y.shape, np.nan, np.float32))
    made.forward(x, w, given.b.astype(np.float32), y, 0.0)
    close(y, np.maximum(given.y, 0), BOUNDS[mode])
    w[0] = np.nan
    made.forward(x, w, None, y, 0.0)
    assert np.isnan(y[:, 0]).all()
    assert np.isfinite(y[:, 1:]).all()


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(64, 96, 13, 80), (2, 300, 15, 200), (40, 16, 30, 24)], ids=str)
def test_sums_over_many_blocks_of_tiles_and_of_channels_are_whole(size, mode, threads) -> None:
    n, c, side, k = size
    r = MODES[mode].r
    shape = ConvShape((n, c, side, side), k, ConvGeometry((r, r), pad=(r // 2, r // 2)))
    made = Winograd(shape, TEAMS[threads], Workspace(), mode=mode)
    x, dy = (in_memory(np.ones(size, np.float32)) for size in (shape.in_shape, shape.out_shape))
    w = np.ones(shape.weight_shape, np.float32)
    y, dx = (
        in_memory(np.full(size, np.nan, np.float32)) for size in (shape.out_shape, shape.in_shape)
    )
    dw = np.full(w.shape, np.nan, np.float32)
    made.forward(x, w, None, y)
    made.backward_data(dy, w, dx)
    made.backward_weights(x, dy, dw)
    inside = np.convolve(np.ones(side), np.ones(r), "same")  # taps within the image, along one axis
    taps = np.outer(inside, inside)
    close(y, np.broadcast_to(c * taps, y.shape), ALIKE)
    close(dx, np.broadcast_to(k * taps, dx.shape), ALIKE)
    # pixels that a tap meets, along one axis
    reach = np.array([side - abs(tap - r // 2) for tap in range(r)])
    close(dw, np.broadcast_to(n * np.outer(reach, reach), dw.shape), ALIKE)


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_no_pass_takes_more_scratch_than_announced(name, mode, threads) -> None:
    shape = shape_of(name, mode)
    place = Workspace()
    made = Winograd(shape, TEAMS[threads], place, mode=mode)
    x, dy = (in_memory(np.zeros(size, np.float32)) for size in (shape.in_shape, shape.out_shape))
    w = np.zeros(shape.weight_shape, np.float32)
    made.forward(x, w, None, dy)
    made.backward_data(dy, w, x)
    made.backward_weights(x, dy, w)
    assert place.size <= made.workspace_bytes


def test_channels_next_to_the_images_are_not_touched() -> None:
    shape = shape_of("padded", "F(4x4,3x3)")
    given = case(shape)
    made = Winograd(shape, TEAMS[2], Workspace(), mode="F(4x4,3x3)")
    n, k, high, wide = shape.out_shape
    block = np.full((high, wide, n, k + 8), 77, np.float32)
    y = block[..., 5 : 5 + k].transpose(2, 3, 0, 1)
    made.forward(in_memory(given.x.astype(np.float32)), given.w.astype(np.float32), None, y)
    assert (block[..., :5] == 77).all()
    assert (block[..., 5 + k :] == 77).all()


@pytest.mark.parametrize(
    "geometry",
    [
        ConvGeometry((3, 3), (2, 2)), ConvGeometry((3, 3), dilation=(2, 2)), ConvGeometry((3, 5)), ConvGeometry((7, 7)),
        ConvGeometry((1, 1)),
    ],
)  # fmt: skip
def test_other_convolutions_are_not_supported(geometry) -> None:
    assert not any(supports(ConvShape((2, 16, 12, 12), 16, geometry), mode) for mode in MODES)


@pytest.mark.slow
@pytest.mark.skipif(host().bits <= int(NARROW), reason="this run itself has narrow vectors")
def test_narrow_vectors_give_the_same_results() -> None:
    root = Path(__file__).parents[3]
    chosen = "definition and (padded or groups or many) and in_memory"
    command = [sys.executable, "-m", "pytest", str(Path(__file__).relative_to(root)), "-k", chosen]
    ran = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, VARIABLE: NARROW},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
