"""Products of float32 matrices whose operands are rounded to bfloat16 while they are packed:
C[m, n] = max(sum_k A[m, k] B[k, n] + bias[n], floor), sums in float32.

A block of B is packed for all rows of A, and a few rows of A at a time, which stay in the caches
near the core. Blocks of 32 rows are then multiplied, by AMX's tiles or by VDPBF16PS
(`bfloat16_choice`). The depth of a block depends on k alone, so the result has the same bits for
every number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.cpu.codegen.bfloat16 import LANES
from ops.cpu.codegen.kernel import arguments, inlined, kernel, layout
from ops.cpu.gemm.amx_block import Blocks, call_begin, call_block, call_end
from ops.cpu.gemm.bfloat16_choice import best_blocks
from ops.cpu.gemm.gemm import NOTHING, Strides, panel_vectors
from ops.cpu.gemm.narrow import CHUNK, call_narrow, narrowers
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, aligned

DEPTH = 512  # most rows of a block of B
BLOCK_BYTES = 512 << 10  # of packed B, in the second-level cache
WIDE = 4 * LANES  # bytes of a vector

_BLOCK = layout(
    (
        "begin multiply end rows vectors along across along_turned across_turned A sAr sAk B sBk "
        "sBn C sCr I sIr sIc m n k split kc nc pitch scratch packed step"
    ),
    "floor",
)


@inlined
def pack_block(a: Any, scratch: int, B: int, width: int, depth: int) -> None:
    """Round depth x width of B into panels of pairs. Rows are read 32 at a time, side by side for
    all panels."""
    pairs = (depth + CHUNK - 1) // CHUNK * LANES
    total = (width + LANES - 1) // LANES
    count = (total + a.vectors - 1) // a.vectors
    step = CHUNK if a.sBn == 4 else depth
    for k in range(0, depth, step):
        rows = min(step, depth - k)
        col = 0
        for p in range(count):
            v = panel_vectors(total, col, count - p)
            panel = scratch + col * WIDE * pairs + (k // 2) * v * WIDE
            if a.sBn == 4:
                columns = min(v * LANES, width - col * LANES)
                source = B + k * a.sBk + col * WIDE
                call_narrow(a.across, source, a.sBk, panel, v * WIDE, rows, columns)
            else:
                for u in range(v):
                    first = (col + u) * LANES
                    columns = min(LANES, width - first)
                    source = B + first * a.sBn
                    into = panel + u * WIDE
                    call_narrow(a.along_turned, source, a.sBn, into, v * WIDE, columns, depth)
            col += v


@inlined
def multiply_rows(
    a: Any, scratch: int, m: int, n: int, k: int, r: int, width: int, depth: int
) -> None:
    """Round `r` rows of A, and multiply them with each panel of the packed block of B."""
    none = np.float32(-np.inf)
    pairs = (depth + CHUNK - 1) // CHUNK * LANES
    total = (width + LANES - 1) // LANES
    count = (total + a.vectors - 1) // a.vectors
    packed = scratch + a.packed
    A = a.A + m * a.sAr + k * a.sAk
    if a.sAk == 4:
        call_narrow(a.along, A, a.sAr, packed, a.pitch, r, depth)
    else:
        for part in range(0, depth, CHUNK):
            numbers = min(CHUNK, depth - part)
            source = A + part * a.sAk
            for row in range(0, r, LANES):
                columns = min(LANES, r - row)
                into = packed + row * a.pitch + part * 2
                call_narrow(
                    a.across_turned, source + row * 4, a.sAk, into, a.pitch, numbers, columns
                )
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
        call_block(
            a.multiply,
            packed,
            a.pitch,
            scratch + col * WIDE * pairs,
            v * WIDE,
            C,
            a.sCr,
            start,
            step,
            2 * pairs,
            r,
            min(v * LANES, width - col * LANES),
            1,
            floor,
        )
        col += v


@kernel(_BLOCK)
def bfloat16_product(number: int, size: int, at: Any) -> None:
    """Multiply. The threads share A's rows (split 0) or B's columns (split 1)."""
    a = arguments(at)
    m0 = 0
    m1 = a.m
    n0 = 0
    n1 = a.n
    if a.split:
        units = (a.n + LANES - 1) // LANES
        n0 = units * number // size * LANES
        n1 = min(a.n, units * (number + 1) // size * LANES)
    else:
        units = (a.m + a.rows - 1) // a.rows
        m0 = units * number // size * a.rows
        m1 = min(a.m, units * (number + 1) // size * a.rows)
    scratch = a.scratch + number * a.step
    call_begin(a.begin)
    for n in range(n0, n1, a.nc):
        width = min(a.nc, n1 - n)
        for k in range(0, a.k, a.kc):
            depth = min(a.kc, a.k - k)
            pack_block(a, scratch, a.B + k * a.sBk + n * a.sBn, width, depth)
            for m in range(m0, m1, a.rows):
                multiply_rows(a, scratch, m, n, k, min(a.rows, m1 - m), width, depth)
    call_end(a.end)


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
    blocks: Blocks | None = None,
) -> BFloat16Product | None:
    """The plan of C (m, n) = A (m, k) B (k, n), A and B float32 and rounded to bfloat16.

    `bias`: whether `run` will be given one, of n numbers; `accumulate`: whether the product is
    added to C; `blocks`: the blocks to use, by default the fastest. None if the numbers of A, B or
    C have no neighbours 4 bytes apart, or if there is a bias and only the columns of C are
    contiguous. Raises KernelsMissing if the processor has no fast products in bfloat16.

    C differs from the exact product of the rounded operands by (k + 2) 2^-23 sum_k |A[m, k]
    B[k, n]| at most. Denormal numbers count as 0.
    """
    blocks = blocks or best_blocks()
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
    block = _block(team.size, blocks, (m, n, k), a, b, c[0])
    if accumulate:
        block.sIr = c[0]
    block.sIc = 4 * (bias or accumulate)
    return BFloat16Product(team, block, swapped, accumulate)


def _unit(stride: int, count: int) -> bool:
    return stride == 4 or count == 1


def _packs(strides: Strides, rows: int, columns: int) -> bool:
    return _unit(strides[0], rows) or _unit(strides[1], columns)


def _block(
    size: int, blocks: Blocks, shape: tuple[int, int, int], a: Strides, b: Strides, row_C: int
) -> Any:
    """The kernel's arguments for `size` threads, without addresses."""
    m, n, k = shape
    narrow = narrowers()
    columns = blocks.vectors * LANES
    split = n >= 2 * size * columns or m < size * blocks.rows
    width = -(-n // (size * LANES)) * LANES if split else n
    depth = aligned(-(-k // -(-k // DEPTH)), CHUNK)
    across = min(width, BLOCK_BYTES // (2 * depth) // columns * columns)
    panels = aligned(2 * depth * aligned(across, LANES))
    pitch = aligned(2 * depth) + LINE
    return bfloat16_product.block(
        begin=blocks.begin,
        multiply=blocks.block,
        end=blocks.end,
        rows=blocks.rows,
        vectors=blocks.vectors,
        along=narrow.along,
        across=narrow.across,
        along_turned=narrow.along_turned,
        across_turned=narrow.across_turned,
        sAr=a[0],
        sAk=4 if k == 1 and a[0] != 4 else a[1],
        sBk=b[0],
        sBn=4 if n == 1 else b[1],
        sCr=row_C,
        m=m,
        n=n,
        k=k,
        split=int(split),
        kc=depth,
        nc=across,
        pitch=pitch,
        packed=panels,
        step=panels + blocks.rows * pitch,
    )
