"""The block of AMX's tiles compared with NumPy's product in float64, with NaN around all operands."""

from __future__ import annotations

import ctypes
import math
import os

import numpy as np
import pytest

from ops import Array, KernelsMissing
from ops.cpu.codegen.amx import amx_missing, has_amx
from ops.cpu.gemm.amx_block import NAMES, blocks
from tests.ops.cpu.narrow import passes_with_narrow_vectors

needs_amx = pytest.mark.skipif(not has_amx(), reason=amx_missing() or "has AMX")
SIZES = (1, 2, 15, 16, 17, 31, 32)
DEPTHS = (1, 2, 31, 32, 33, 64, 65, 190, 512)


def narrowed(x: Array) -> Array:
    """The upper halves of float32 numbers whose lower halves are 0."""
    return np.asarray(np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16, np.uint16)


def numbers(random: np.random.Generator, *shape: int) -> Array:
    """Small multiples of 1/8, which bfloat16 holds exactly."""
    return np.asarray(random.integers(-32, 33, shape) / 8, np.float32)


def framed(inner: Array, fill: float) -> Array:
    """A view of a copy of `inner` in the middle of a larger array filled with `fill`."""
    rows, columns = inner.shape
    block = np.full((rows + 3, columns + 7), fill, inner.dtype)
    block[1 : 1 + rows, 2 : 2 + columns] = inner
    return block[1 : 1 + rows, 2 : 2 + columns]


def paired(b: Array) -> Array:
    """Rows of pairs of a matrix (k, n): (ceil(k / 2), 2 n)."""
    k, n = b.shape
    even = np.zeros((k + k % 2, n), b.dtype)
    even[:k] = b
    return even.reshape(-1, 2, n).transpose(0, 2, 1).reshape(-1, 2 * n)


def run(
    a: Array, b: Array, c: Array, start: Array | None = None, step: int = 0,
    floor: float = -math.inf, *, size: tuple[int, int, int], padded: bool = False,
) -> None:  # fmt: skip
    """Run one block; a and b are uint16, b in rows of pairs."""
    at = blocks()
    begin, end = (ctypes.CFUNCTYPE(None)(place) for place in (at.begin, at.end))
    kinds = [ctypes.c_int64] * len(NAMES)
    block = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_float)(at.block)
    k, rows, columns = size
    begin()
    block(
        a.ctypes.data, a.strides[0], b.ctypes.data, b.strides[0], c.ctypes.data, c.strides[0],
        0 if start is None else start.ctypes.data, step, k, rows, columns, padded, floor,
    )  # fmt: skip
    end()


@needs_amx
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("columns", SIZES)
def test_a_block_of_any_size_is_exact_and_reads_and_writes_nothing_else(
    random, rows, columns
) -> None:
    nan = 0x7FC0
    for k in DEPTHS:
        x, y, bias = numbers(random, rows, k), numbers(random, k, columns), numbers(random, columns)
        a, b = framed(narrowed(x), nan), framed(paired(narrowed(y)), nan)
        before = numbers(random, rows, columns)
        for start, floor in (("sums", -math.inf), ("bias", 0.0), ("C", -math.inf)):
            c = framed(before if start == "C" else np.full_like(before, np.nan), 77)
            given = {"sums": (None, 0), "bias": (bias, 0), "C": (c, c.strides[0])}[start]
            run(a, b, c, *given, floor, size=(k, rows, columns))
            product = x.astype(np.float64) @ y
            added = {"sums": 0.0, "bias": bias, "C": before}[start]
            assert (c == np.maximum(product + added, floor)).all(), (k, start)
            c[:] = 77
            assert (c.base == 77).all()


@needs_amx
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("columns", SIZES)
def test_a_padded_block_has_the_bits_of_the_one_that_is_not_padded(random, rows, columns) -> None:
    for k in DEPTHS:
        x, y = (random.standard_normal(s).astype("f") for s in ((rows, k), (k, columns)))
        a, b = narrowed(x), paired(narrowed(y))
        room_A, room_B = np.zeros((32, 512), np.uint16), np.zeros((256, 64), np.uint16)
        room_A[rows:] = room_B[:, 2 * columns :] = 0x7FC0
        room_A[:rows, :k] = a
        room_B[: len(b), : 2 * columns] = b
        results = [np.full((rows, columns), np.nan, np.float32) for _ in range(2)]
        run(a, b, results[0], size=(k, rows, columns))
        run(room_A, room_B, results[1], size=(k, rows, columns), padded=True)
        assert results[0].tobytes() == results[1].tobytes()


@needs_amx
def test_a_forked_process_may_use_tiles() -> None:
    ones = np.full((16, 32), 0x3F80, np.uint16)
    c = np.zeros((16, 16), np.float32)
    run(ones, ones, c, size=(32, 16, 16))
    child = os.fork()
    if not child:
        c[:] = 0
        run(ones, ones, c, size=(32, 16, 16))
        os._exit(0 if (c == 32).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(has_amx(), reason="needs a processor or vectors without AMX")
def test_a_process_without_tiles_is_refused_in_words() -> None:
    with pytest.raises(KernelsMissing, match=r"products of tiles: .*; use precision 'fast'"):
        blocks()


def test_tiles_are_refused_with_vectors_of_256_bits() -> None:
    passes_with_narrow_vectors(__file__, "refused_in_words")
