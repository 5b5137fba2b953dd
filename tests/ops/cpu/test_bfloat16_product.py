"""Products with operands rounded to bfloat16 compared with NumPy's in float64 of operands rounded by
integers, with NaN-filled destinations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ops import Array, KernelsMissing
from ops.cpu.codegen.amx import amx_missing
from ops.cpu.codegen.bfloat16 import has_bfloat16
from ops.cpu.gemm import amx_block, dot_block
from ops.cpu.gemm.amx_block import Blocks
from ops.cpu.gemm.bfloat16_product import planned_bfloat16
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from tests.ops.conftest import nans
from tests.ops.cpu.narrow import passes_with_narrow_vectors

TEAMS = {size: Team(size) for size in (1, 2, 3)}
needs_bfloat16 = pytest.mark.skipif(not has_bfloat16(), reason="needs AVX512_BF16")
needs_amx = pytest.mark.skipif(bool(amx_missing()), reason=amx_missing() or "has AMX")
# one number, odd sizes, whole tiles; more rows, columns or depth than one block holds
SHAPES = [
    (1, 1, 1),
    (7, 13, 5),
    (8, 48, 64),
    (13, 100, 97),
    (100, 13, 50),
    (1000, 3, 701),
    (3, 1000, 700),
    (130, 1, 9),
    (1, 300, 4),
    (33, 1700, 515),
]


@pytest.fixture(
    params=[
        pytest.param(dot_block.blocks, id="VDPBF16PS", marks=needs_bfloat16),
        pytest.param(amx_block.blocks, id="AMX", marks=needs_amx),
    ]
)
def blocks(request: pytest.FixtureRequest) -> Blocks:
    """The blocks of each instruction that this processor has."""
    found: Blocks = request.param()
    return found


def rows_first(x: Array) -> Array:
    return np.ascontiguousarray(x)


def columns_first(x: Array) -> Array:
    return np.asfortranarray(x)


def part(x: Array) -> Array:
    """The same values as a slice of a larger block of NaN."""
    block = np.full((x.shape[0], x.shape[1] + 5), np.nan, x.dtype)
    block[:, 2 : 2 + x.shape[1]] = x
    return block[:, 2 : 2 + x.shape[1]]


LAYOUTS = (rows_first, columns_first, part)


def rounded(x: Array) -> Array:
    """x with 8 bits of mantissa, rounded to even, in float64."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    upper = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return (upper << np.uint32(16)).view(np.float32).astype(np.float64)


def multiply(
    blocks: Blocks, threads: int, a: Array, b: Array, c: Array, bias: Array | None = None,
    floor: float = -math.inf, *, add: bool = False,
) -> bool:  # fmt: skip
    """Compute c = max(a b + bias, floor), or c + a b. Returns whether there is a plan."""
    shape = (len(a), b.shape[1], len(b))
    plan = planned_bfloat16(
        TEAMS[threads], shape, a.strides, b.strides, c.strides, bias=bias is not None,
        accumulate=add, blocks=blocks,
    )  # fmt: skip
    if plan is None:
        return False
    scratch = Workspace()
    at_bias = 0 if bias is None else bias.ctypes.data
    at = (x.ctypes.data for x in (a, b, c))
    plan.run(*at, scratch.take(plan.scratch_bytes), bias=at_bias, floor=floor)
    return True


@pytest.mark.parametrize("threads", TEAMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_of_rounded_operands_is_right_in_every_layout(
    random, shape, threads, blocks
) -> None:
    m, n, k = shape
    a, b, c, bias = (random.standard_normal(s).astype("f") for s in ((m, k), (k, n), (m, n), n))
    plain = rounded(a) @ rounded(b)
    bound = (k + 2) * 2.0**-23 * (np.abs(rounded(a)) @ np.abs(rounded(b)) + np.abs(c) + abs(bias))
    for of_a, of_b, of_c in itertools.product(LAYOUTS, repeat=3):
        for with_bias, floor, add in (
            (False, -math.inf, False),
            (True, 0.0, False),
            (False, -math.inf, True),
        ):
            into = of_c(c if add else nans(c.shape, "f"))
            into = into if of_c is part else into.copy("K")
            found = multiply(
                blocks, threads, of_a(a), of_b(b), into, bias if with_bias else None, floor, add=add
            )
            if not found:
                assert with_bias
                assert into.strides[1] != 4
                continue
            expected = np.maximum(plain + with_bias * bias + add * c, floor)
            assert (np.abs(into - expected) <= bound).all(), (of_a, of_b, of_c, with_bias, add)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_has_the_same_bits_for_every_number_of_threads(random, layout, blocks) -> None:
    for m, n, k in ((37, 1700, 515), (300, 40, 1030)):
        a, b = (random.standard_normal(s).astype("f") for s in ((m, k), (k, n)))
        results = [nans((m, n), "f") for _ in TEAMS]
        for threads, into in zip(TEAMS, results, strict=True):
            assert multiply(blocks, threads, layout(a), layout(b), into)
        assert len({into.tobytes() for into in results}) == 1


def test_nothing_is_written_beyond_the_result_of_rounded_operands(random, blocks) -> None:
    a, b = (random.standard_normal(s).astype("f") for s in ((9, 31), (31, 37)))
    block = np.full((11, 45), 77, "f")
    assert multiply(blocks, 2, a, b, block[1:10, 3:40])
    assert np.isfinite(block).all()
    block[1:10, 3:40] = 77
    assert (block == 77).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_nan_and_an_infinity_reach_their_rows_alone(random, layout, blocks) -> None:
    a, b = (np.abs(random.standard_normal(s)).astype("f") for s in ((20, 33), (33, 50)))
    a[3, 32] = np.nan
    a[7, 4] = np.inf
    into = nans((20, 50), "f")
    assert multiply(blocks, 1, layout(a), layout(b), into)
    assert np.isnan(into[3]).all()
    assert np.isposinf(into[7]).all()
    assert np.isfinite(np.delete(into, (3, 7), axis=0)).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_are_rounded_to_even_and_denormal_numbers_count_as_0(layout, blocks) -> None:
    tie = 2.0**-8  # half of the last place of 1
    given = np.array([[1 + tie, 0], [1 + 3 * tie, 0], [-1 - tie, 0], [2.0**-130, 0]], np.float32)
    expected = np.array([1, 1 + 4 * tie, -1, 0])
    into = nans((4, 1), "f")
    assert multiply(blocks, 1, layout(given), np.array([[1], [0]], np.float32), into)
    assert (into[:, 0] == expected).all()
    into = nans((1, 4), "f")
    assert multiply(blocks, 1, np.array([[1, 0]], np.float32), layout(given.T), into)
    assert (into[0] == expected).all()


def test_operands_without_neighbours_have_no_plan_in_bfloat16(blocks) -> None:
    rows, apart = (40, 4), (80, 8)
    assert planned_bfloat16(TEAMS[1], (4, 6, 10), rows, (24, 4), (24, 4), blocks=blocks) is not None
    for strides in ((apart, (24, 4), (24, 4)), (rows, apart, (24, 4)), (rows, (24, 4), apart)):
        assert planned_bfloat16(TEAMS[1], (4, 6, 10), *strides, blocks=blocks) is None


@pytest.mark.skipif(has_bfloat16(), reason="needs a processor or vectors without AVX512_BF16")
def test_a_processor_without_the_instructions_is_refused_in_words() -> None:
    with pytest.raises(KernelsMissing, match=r"AVX512_BF16.*use precision 'fast'"):
        planned_bfloat16(TEAMS[1], (4, 6, 10), (40, 4), (24, 4), (24, 4))


def test_products_in_bfloat16_are_refused_with_vectors_of_256_bits() -> None:
    passes_with_narrow_vectors(__file__, "refused_in_words")
