"""Products of matrices on the CPU backend compared with NumPy in float64, with NaN-filled
destinations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ops import Array, OpsError
from ops.cpu.gemm.gemm import planned
from ops.cpu.gemm.microkernel import tiles
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from tests.ops.conftest import nans
from tests.ops.cpu.conftest import cpu

TEAMS = {size: Team(size) for size in (1, 2)}
# odd sizes; more rows, columns or depth than one block holds
SHAPES = [
    (1, 1, 1),
    (7, 13, 5),
    (13, 100, 97),
    (100, 13, 50),
    (3, 1000, 700),
    (1000, 3, 700),
    (33, 257, 1030),
    (130, 1, 9),
    (1, 300, 4),
    (35, 1700, 60),
    (20, 70, 2000),
    (5, 1100, 600),  # more of B than a cache holds, for few rows and for more
    (29, 1100, 600),
]


def rows_first(x: Array) -> Array:
    return np.ascontiguousarray(x)


def columns_first(x: Array) -> Array:
    return np.asfortranarray(x)


def part(x: Array) -> Array:
    """The same values as a slice of a larger block."""
    block = np.full((x.shape[0], x.shape[1] + 5), 77, x.dtype)
    block[:, 2 : 2 + x.shape[1]] = x
    return block[:, 2 : 2 + x.shape[1]]


LAYOUTS = (rows_first, columns_first, part)


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=1e-5 * max(1.0, float(np.abs(expected).max()))
    )


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_is_right_in_every_layout_with_bias_floor_and_accumulated(
    random, shape, threads
) -> None:
    m, n, k = shape
    a, b, c, bias = (random.standard_normal(s).astype("f") for s in ((m, k), (k, n), (m, n), n))
    plain = a.astype("d") @ b.astype("d")
    workspace = Workspace()
    for of_a, of_b, of_c in itertools.product(LAYOUTS, repeat=3):
        left = of_a(a)
        right = of_b(b)
        for with_bias, floor, add in (
            (0, -math.inf, 0),
            (1, -math.inf, 0),
            (1, 0.0, 0),
            (0, -math.inf, 1),
        ):
            into = (
                of_c(c if add else nans(c.shape, "f")).copy("K")
                if of_c is not part
                else part(c if add else 0 * c)
            )
            plan = planned(
                TEAMS[threads], (m, n, k), left.strides, right.strides, into.strides,
                bias=bool(with_bias), accumulate=bool(add),
            )  # fmt: skip
            assert plan is not None
            scratch = workspace.take(plan.scratch_bytes)
            at = (x.ctypes.data for x in (left, right, into))
            plan.run(*at, scratch, bias=bias.ctypes.data if with_bias else 0, floor=floor)
            close(into, np.maximum(plain + with_bias * bias + add * c, floor))


def test_a_large_matrix_is_packed_once_more_than_a_few_tiles_of_rows_read_it() -> None:
    """Each tile reads it again, from rows that lie pages apart. A small one stays in the cache."""
    tile = int(tiles().rows[tiles().vectors - 1])

    def way(m: int, n: int, k: int) -> str:
        plan = planned(TEAMS[1], (m, n, k), (4 * k, 4), (4 * n, 4), (4 * n, 4))
        return repr(plan).split(",")[0].rpartition(f"x{n} ")[2]

    assert way(2 * tile, 4096, 2048) == "in place"
    assert way(2 * tile + 1, 4096, 2048) != "in place"
    assert way(32, 4096, 2048) != "in place"
    assert way(32, 100, 100) == "in place"


def test_nothing_is_written_beyond_the_result(random) -> None:
    a = random.standard_normal((9, 30)).astype("f")
    b = random.standard_normal((30, 37)).astype("f")
    block = np.full((11, 45), 77, "f")
    cpu(2).matmul(a, b, out=block[1:10, 3:40])
    close(block[1:10, 3:40], a.astype("d") @ b.astype("d"))
    block[1:10, 3:40] = 77
    assert (block == 77).all()


def test_a_layout_without_neighbours_is_left_to_numpy(random) -> None:
    a = random.standard_normal((8, 10)).astype("f")
    b = random.standard_normal((10, 12)).astype("f")
    wide = np.empty((8, 2, 12, 2), "f")
    assert planned(TEAMS[1], (4, 6, 10), (40, 4), (48, 4), (96, 8)) is None
    found = cpu(1).matmul(a, b, out=wide[:, 0, :, 0])
    close(found, a.astype("d") @ b.astype("d"))
    with pytest.raises(OpsError, match="expected \\(M, K\\), \\(K, N\\), \\(M, N\\)"):
        cpu(1).matmul(a, b[1:], out=wide[:, 0, :, 0])
