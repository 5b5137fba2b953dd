"""Products of float32 matrices whose operands are rounded to bfloat16 while they are packed:
C[m, n] = max(sum_k A[m, k] B[k, n] + bias[n], floor), sums in float32.

The loops are those of `gemm`, and the micro-kernel is the same with another instruction, which
takes two numbers of A and of B at a time (AVX512_BF16). So the pairs of both operands must be
neighbours: both are packed, a block of B for all rows of A, and a few rows of A at a time, which
stay in the first-level cache. The depth of a block depends on k alone, so the result has the same
bits for every number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.cpu.codegen.bfloat16 import LANES, check_bfloat16
from ops.cpu.codegen.kernel import arguments, calling, inlined, integers, kernel, layout
from ops.cpu.gemm.gemm import BLOCK_BYTES, NOTHING, Strides, panel_vectors
from ops.cpu.gemm.microkernel import MAX_ROWS, call_tile, tiles
from ops.cpu.gemm.narrow import call_narrow, narrowers
from ops.cpu.gemm.permute import TRANSPOSE, movers
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, aligned

DEPTH = 256  # most rows of a block of B
WIDE = 4 * LANES  # bytes of a vector
WIDTH_UNIT = 48  # columns of a whole panel
call_transpose = calling(TRANSPOSE)

_BLOCK = layout(
    (
        "table rows vectors along across transpose A sAr sAk B sBk sBn C sCr I sIr sIc m n k split "
        "unit kc nc pitch scratch packed turned step"
    ),
    "floor",
)


@inlined
def pack_block(a: Any, scratch: int, B: int, width: int, depth: int, turned: int) -> None:
    """Round depth x width of B into panels of pairs. If its columns are contiguous, 16 of them at a
    time are rounded as rows (at `turned`), and the squares of pairs are then transposed."""
    pairs = (depth + 1) // 2
    total = (width + LANES - 1) // LANES
    count = (total + a.vectors - 1) // a.vectors
    col = 0
    for p in range(count):
        v = panel_vectors(total, col, count - p)
        panel = scratch + col * WIDE * pairs
        if a.sBn == 4:
            columns = min(v * LANES, width - col * LANES)
            call_narrow(a.across, B + col * WIDE, a.sBk, panel, v * WIDE, depth, columns)
        else:
            for u in range(v):
                first = (col + u) * LANES
                columns = min(LANES, width - first)
                source = B + first * a.sBn
                call_narrow(a.along, source, a.sBn, turned, a.pitch, columns, depth)
                for pair in range(0, pairs, LANES):
                    call_transpose(
                        a.transpose,
                        turned + pair * 4,
                        a.pitch,
                        columns,
                        min(LANES, pairs - pair),
                        panel + pair * v * WIDE + u * WIDE,
                        v * WIDE,
                        LANES,
                    )
        col += v


@inlined
def multiply_rows(
    a: Any, table: Any, scratch: int, m: int, n: int, k: int, r: int, width: int, depth: int
) -> None:
    """Round `r` rows of A into pairs, and multiply them with each panel of the packed block of
    B."""
    none = np.float32(-np.inf)
    pairs = (depth + 1) // 2
    total = (width + LANES - 1) // LANES
    count = (total + a.vectors - 1) // a.vectors
    packed = scratch + a.packed
    A = a.A + m * a.sAr + k * a.sAk
    row_step = a.pitch
    pair_step = 4
    if a.sAk == 4:
        call_narrow(a.along, A, a.sAr, packed, a.pitch, r, depth)
    else:
        row_step = 4
        pair_step = WIDE
        call_narrow(a.across, A, a.sAk, packed, WIDE, depth, r)
    floor = a.floor if k + depth == a.k else none
    col = 0
    for p in range(count):
        v = panel_vectors(total, col, count - p)
        C = a.C + m * a.sCr + n * 4 + col * WIDE
        start = C
        step = a.sCr
        if k == 0:
            start = a.I + m * a.sIr + (n + col * LANES) * a.sIc
            step = a.sIr
        call_tile(
            table[(v - 1) * MAX_ROWS + r - 1],
            packed,
            row_step,
            pair_step,
            0,
            scratch + col * WIDE * pairs,
            v * WIDE,
            0,
            C,
            a.sCr,
            start,
            step,
            pairs,
            1,
            min(v * LANES, width - col * LANES),
            floor,
        )
        col += v


@kernel(_BLOCK)
def bfloat16_product(number: int, size: int, at: Any) -> None:
    """Multiply. The threads share A's rows (split 0) or B's columns (split 1)."""
    a = arguments(at)
    table = integers(a.table, a.vectors * MAX_ROWS)
    rows_of = integers(a.rows, a.vectors)
    m0 = 0
    m1 = a.m
    n0 = 0
    n1 = a.n
    if a.split:
        units = (a.n + LANES - 1) // LANES
        n0 = units * number // size * LANES
        n1 = min(a.n, units * (number + 1) // size * LANES)
    else:
        units = (a.m + a.unit - 1) // a.unit
        m0 = units * number // size * a.unit
        m1 = min(a.m, units * (number + 1) // size * a.unit)
    scratch = a.scratch + number * a.step
    for n in range(n0, n1, a.nc):
        width = min(a.nc, n1 - n)
        total = (width + LANES - 1) // LANES
        count = (total + a.vectors - 1) // a.vectors
        rows = rows_of[panel_vectors(total, 0, count) - 1]
        for k in range(0, a.k, a.kc):
            depth = min(a.kc, a.k - k)
            B = a.B + k * a.sBk + n * a.sBn
            pack_block(a, scratch, B, width, depth, scratch + a.turned)
            for m in range(m0, m1, rows):
                r = min(rows, m1 - m)
                multiply_rows(a, table, scratch, m, n, k, r, width, depth)


class BFloat16Product:
    """The plan of one product, as `gemm.Product` is: shapes, strides and threads are fixed,
    addresses come with each call. `planned_bfloat16` makes plans."""

    def __init__(self, team: Team, block: Any, swapped: bool, accumulate: bool) -> None:
        self._team = team
        self._block = block
        self._swapped = swapped
        self._accumulate = accumulate
        self.scratch_bytes: int = team.size * block.step

    def __repr__(self) -> str:
        b = self._block
        swapped = " swapped" * self._swapped
        return (
            f"<BFloat16Product {b.m}x{b.k}x{b.n}{swapped}, blocks {b.kc}x{b.nc}, split "
            f"{'mn'[b.split]}>"
        )

    def run(
        self, a: int, b: int, c: int, scratch: int, *, bias: int = 0, floor: float = -math.inf
    ) -> None:
        """C = max(A B + bias, floor) of the float32 matrices at these addresses, A and B rounded to
        bfloat16. `bias` must be as planned, 0 for none. The caller lends `scratch_bytes`."""
        block = self._block
        block.A, block.B = (b, a) if self._swapped else (a, b)
        block.C = c
        block.I = c if self._accumulate else bias or NOTHING.ctypes.data
        block.floor = floor
        block.scratch = scratch
        self._team.run(bfloat16_product, block)


def planned_bfloat16(
    team: Team,
    shape: tuple[int, int, int],
    a: Strides,
    b: Strides,
    c: Strides,
    *,
    bias: bool = False,
    accumulate: bool = False,
) -> BFloat16Product | None:
    """The plan of C (m, n) = A (m, k) B (k, n), A and B float32 and rounded to bfloat16.

    `bias`: whether `run` will be given one, of n numbers; `accumulate`: whether the product is
    added to C. None if the numbers of A, B or C have no neighbours 4 bytes apart, or if there is a
    bias and only the columns of C are contiguous. Raises KernelsMissing if the processor lacks
    AVX512_BF16.

    C differs from the exact product of the rounded operands by (k + 2) 2^-23 sum_k |A[m, k]
    B[k, n]| at most. Denormal numbers count as 0.
    """
    check_bfloat16()
    m, n, k = shape
    if min(shape) < 1 or any(stride % 4 for stride in (*a, *b, *c)):
        return None
    swapped = not _unit(c[1], n)
    if swapped:
        if bias:
            return None
        m, n = n, m
        a, b, c = b[::-1], a[::-1], c[::-1]
    if not _unit(c[1], n) or not _packs(a, m, k) or not _packs(b, k, n):
        return None
    block = _block(team.size, (m, n, k), a, b, c[0])
    if accumulate:
        block.sIr = c[0]
    block.sIc = 4 * (bias or accumulate)
    return BFloat16Product(team, block, swapped, accumulate)


def _unit(stride: int, count: int) -> bool:
    return stride == 4 or count == 1


def _packs(strides: Strides, rows: int, columns: int) -> bool:
    return _unit(strides[0], rows) or _unit(strides[1], columns)


def _block(size: int, shape: tuple[int, int, int], a: Strides, b: Strides, row_C: int) -> Any:
    """The kernel's arguments for `size` threads, without addresses."""
    m, n, k = shape
    t = tiles(pairs=True)
    narrow = narrowers()
    split = n >= 2 * size * t.vectors * LANES or m < size * int(t.rows[t.vectors - 1])
    width = -(-n // (size * LANES)) * LANES if split else n
    blocks = -(-k // DEPTH)
    depth = min(k, aligned(-(-k // blocks), 2))
    across = min(width, BLOCK_BYTES // (2 * depth) // WIDTH_UNIT * WIDTH_UNIT)
    vectors = -(-across // LANES)
    count = -(-vectors // t.vectors)
    panels = -(-depth // 2) * vectors * WIDE
    pitch = aligned(2 * depth) + LINE
    rows = MAX_ROWS * pitch
    woven = -(-depth // 2) * WIDE
    packed = max(rows, woven)
    return bfloat16_product.block(
        table=t.table.ctypes.data,
        rows=t.rows.ctypes.data,
        vectors=t.vectors,
        along=narrow.along,
        across=narrow.across,
        transpose=movers().transpose,
        sAr=a[0],
        sAk=4 if k == 1 and a[0] != 4 else a[1],
        sBk=b[0],
        sBn=4 if n == 1 else b[1],
        sCr=row_C,
        m=m,
        n=n,
        k=k,
        split=int(split),
        unit=int(t.rows[-(-vectors // count) - 1]),
        kc=depth,
        nc=across,
        pitch=pitch,
        packed=aligned(panels),
        turned=aligned(panels) + packed,
        step=aligned(panels) + packed + rows,
    )
