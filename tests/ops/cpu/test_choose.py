"""The choice of the algorithm for a pass. Each precision keeps its error bound with every
algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from ops import ConvGeometry, get_backend
from ops.cpu.codegen.amx import has_amx
from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.choose import (
    DATA,
    FORWARD,
    PRICES,
    WEIGHTS,
    Chooser,
    direct_cost,
    tiled_cost,
    winograd_cost,
)
from ops.cpu.conv.direct import Direct, FirstLayer
from ops.cpu.conv.toom_cook import MODES
from ops.cpu.conv.winograd import Winograd
from ops.cpu.gemm.products import BFLOAT16
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace

PASSES = (FORWARD, DATA, WEIGHTS)
needs_tiles = pytest.mark.skipif(not has_amx(), reason="needs AMX-BF16 and its permission")


def square(n: int, c: int, side: int, k: int, r: int, **windows: int) -> ConvShape:
    pairs = {name: (value, value) for name, value in windows.items() if name != "groups"}
    return ConvShape(
        (n, c, side, side), k, ConvGeometry((r, r), **pairs, groups=windows.get("groups", 1))
    )


def names(shape: ConvShape, precision: str) -> list[str]:
    chooser = Chooser(Team(1), Workspace(), precision)
    found = [chooser(shape, direction) for direction in PASSES]
    return [made.mode.name if isinstance(made, Winograd) else type(made).__name__ for made in found]


@pytest.mark.parametrize(
    ("shape", "fast", "exact"),
    [
        (square(8, 256, 56, 256, 3, pad=1), "F(4x4,3x3)", "F(2x2,3x3)"),  # VGG-16
        (square(64, 256, 13, 384, 3, pad=1), "F(5x5,3x3)", "F(2x2,3x3)"),  # CaffeNet
        (square(32, 384, 6, 1024, 3, pad=1), "F(6x6,3x3)", "F(2x2,3x3)"),  # NiN
        (square(64, 96, 27, 256, 5, pad=2, groups=2), "F(4x4,5x5)", "F(2x2,5x5)"),  # CaffeNet
        (square(8, 64, 56, 256, 1), "Direct", "Direct"),
        (square(8, 128, 56, 128, 3, pad=1, stride=2), "Direct", "Direct"),
        (square(8, 128, 28, 128, 3, pad=2, dilation=2), "Direct", "Direct"),
        (square(8, 128, 28, 128, 7, pad=3), "Direct", "Direct"),
        # transforms would take longer than the products
        (square(16, 4, 30, 4, 3, pad=1), "Direct", "Direct"),
    ],
    ids=str,
)
def test_large_tiles_are_chosen_where_they_fit_and_only_if_fast(shape, fast, exact) -> None:
    for precision, expected in (("fast", fast), ("exact", exact)):
        found = names(shape, precision)
        if shape.in_shape[1] <= 4:
            assert found[0] == found[2] == "FirstLayer"
            found = found[1:2]
        assert set(found) == {expected}


def test_a_few_tiles_do_not_pay_for_transformed_weights() -> None:
    shape = square(1, 512, 7, 512, 3, pad=1)
    assert names(shape, "fast")[2] == "Direct"
    assert names(square(16, 512, 7, 512, 3, pad=1), "fast") == ["F(4x4,3x3)"] * 3


@pytest.mark.parametrize("precision", PRICES)
@pytest.mark.parametrize("direction", PASSES)
def test_the_cheapest_is_chosen(precision, direction) -> None:
    for n, c, side, k, r in (
        (1, 16, 5, 16, 3),
        (2, 64, 9, 20, 3),
        (16, 8, 8, 8, 5),
        (3, 100, 31, 6, 5),
    ):
        shape = square(n, c, side, k, r, pad=r // 2)
        costs = {"Direct": direct_cost(shape, direction)}
        for mode, price in PRICES[precision].items():
            if MODES[mode].r == r:
                costs[mode] = price * winograd_cost(shape, mode, direction)
        if precision == BFLOAT16 and has_amx():
            costs["Tiled"] = tiled_cost(shape, direction)
        assert costs[names(shape, precision)[PASSES.index(direction)]] == min(costs.values())


@needs_tiles
def test_tiles_are_chosen_with_bf16_where_channels_fill_them() -> None:
    for shape in (
        square(8, 256, 56, 64, 1),
        square(8, 256, 14, 256, 3, pad=1),
        square(8, 512, 14, 512, 3, pad=1, stride=2),
        square(128, 16, 32, 16, 3, pad=1),
        square(16, 64, 14, 64, 3, pad=1, groups=2),
    ):
        assert names(shape, BFLOAT16) == ["Tiled"] * 3
        assert "Tiled" not in names(shape, "fast")
    assert names(square(8, 3, 32, 64, 7, pad=3, stride=2), BFLOAT16)[::2] == ["Patched"] * 2
    assert names(square(8, 6, 32, 64, 3, groups=2), BFLOAT16)[::2] == ["FirstLayer"] * 2
    assert names(square(8, 32, 14, 32, 3, pad=1, groups=32), BFLOAT16) == ["Depthwise"] * 3
    assert "Tiled" not in names(square(8, 32, 14, 32, 3, pad=1, groups=8), BFLOAT16)


def test_an_algorithm_is_made_once_and_shared_by_the_passes_that_chose_it() -> None:
    chooser = Chooser(Team(1), Workspace(), "fast")
    shape = square(8, 32, 28, 32, 3, pad=1)
    assert len({id(chooser(shape, direction)) for direction in (*PASSES, *PASSES)}) == 1
    first = square(2, 3, 12, 8, 5)
    assert isinstance(chooser(first, FORWARD), FirstLayer)
    assert isinstance(chooser(first, DATA), Direct)


@pytest.mark.parametrize(
    ("precision", "bound"),
    [("exact", 1e-5), ("fast", 1e-4), pytest.param(BFLOAT16, 1e-2, marks=needs_tiles)],
)
@pytest.mark.parametrize(
    "shape",
    [
        square(4, 200, 14, 40, 3, pad=1), square(3, 64, 13, 48, 3, pad=1), square(5, 80, 6, 64, 3, pad=1),
        square(4, 100, 16, 40, 5, pad=2), square(2, 50, 9, 97, 1), square(2, 3, 20, 16, 7, pad=3, stride=2),
    ],
    ids=str,
)  # fmt: skip
def test_errors_stay_below_the_bound_of_the_precision(shape, precision, bound) -> None:
    rng = np.random.default_rng(1)
    g = shape.geometry
    ops = get_backend("cpu", precision=precision)
    plain = get_backend("numpy")
    x, w, dy = (
        rng.standard_normal(size) for size in (shape.in_shape, shape.weight_shape, shape.out_shape)
    )
    near_x = ops.empty(x.shape)
    near_dy = ops.empty(dy.shape)
    near_x[...], near_dy[...], near_w = x, dy, w.astype(np.float32)
    x, w, dy = (array.astype(np.float64) for array in (near_x, near_w, near_dy))
    pairs = [
        (ops.conv_forward(near_x, near_w, None, g), plain.conv_forward(x, w, None, g)),
        (
            ops.conv_backward_data(near_dy, near_w, g, x.shape),
            plain.conv_backward_data(dy, w, g, x.shape),
        ),
        (
            ops.conv_backward_weights(near_x, near_dy, g, w.shape, bias=False)[0],
            plain.conv_backward_weights(x, dy, g, w.shape, bias=False)[0],
        ),
    ]
    for found, expected in pairs:
        assert np.abs(found - expected).max() <= bound * np.abs(expected).max()
