"""Sums of columns on a device, whose last threads add up what the others left."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import Array
from ops.backends.cupy_backend import CupyBackend
from ops.cuda.device import strips_of
from ops.geometry import ConvGeometry
from tests.ops import host_cupy
from tests.ops.tried import compiled_once

ROWS = 4000
# blocks and threads of a grid: they decide the order in which partial sums are made
GRIDS = [(1, 1), (2, 3), (5, 7), (3, 256)]


def computed(dtype: str) -> list[Array]:
    """The results of every kernel that sums columns."""
    ops = CupyBackend(xp=compiled_once())
    random = np.random.default_rng(5)
    x, dy = (random.standard_normal((ROWS, 5)).astype(dtype) + 3 for _ in range(2))
    gamma, beta = np.full(5, 2, dtype), np.ones(5, dtype)
    y, mean, variance = ops.norm_scale_forward(x, gamma, beta)
    back = ops.norm_scale_backward(dy, x, gamma, beta, mean, variance)
    images = ops.images(random.standard_normal((10, 5, 20, 20)).astype(dtype))
    depthwise = ops.depthwise_backward_weights(
        images, images, ConvGeometry((3, 3), pad=(1, 1), groups=5), (5, 1, 3, 3), bias=True
    )
    tickets = ops.scratch._blocks["tickets"]
    assert not tickets.any()
    return [ops.column_sums(x, None), y, mean, variance, *back, *depthwise]  # type: ignore[list-item]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_have_the_same_bits_whichever_threads_come_last(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for blocks, threads in GRIDS:
        monkeypatch.setattr(host_cupy, "BLOCKS", blocks)
        monkeypatch.setattr(host_cupy, "THREADS", threads)
        found.append(computed(dtype))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("rows", [1, 15, 16, 33, 257, ROWS])
@pytest.mark.parametrize("columns", [1, 3, 64])
def test_every_number_of_strips_gives_the_whole_sum(rows: int, columns: int) -> None:
    ops = CupyBackend(xp=compiled_once())
    x = np.random.default_rng(rows).integers(-9, 9, (rows, columns)).astype(np.float32)
    np.testing.assert_array_equal(ops.column_sums(x, None), x.sum(0))
    strips = strips_of(rows, columns)
    sums, tickets, group = ops.summing(2, strips, columns, x.dtype)
    assert sums.shape == (2, strips, columns) and group == math.ceil(math.sqrt(strips))
    assert tickets.size == (math.ceil(strips / group) + 1) * columns
