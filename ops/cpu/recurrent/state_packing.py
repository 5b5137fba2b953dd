"""The weights of a recurrent layer's state, packed into panels once for all steps: float32 numbers,
or pairs of bfloat16 numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.codegen.bfloat16 import LANES
from ops.cpu.codegen.kernel import arguments, integers, kernel, layout
from ops.cpu.gemm.microkernel import MAX_ROWS, call_tile
from ops.cpu.gemm.narrow import CHUNK, call_narrow
from ops.cpu.gemm.turn import call_turn

WIDE = 4 * LANES  # bytes of a vector of pairs
PACK = layout("table rows vectors lanes turn narrow W row packed depth width turned")


@kernel(PACK)
def pack_state(number: int, size: int, at: Any) -> None:
    """Pack panels of `depth` rows: of W (depth, width), or if `turned` of the transpose of W
    (width, depth)."""
    a = arguments(at)
    table = integers(a.table, a.vectors * MAX_ROWS)
    wide = a.lanes * 4
    rows = integers(a.rows, a.vectors)[a.vectors - 1]
    total = (a.width + a.lanes - 1) // a.lanes
    count = (total + a.vectors - 1) // a.vectors
    for p in range(count * number // size, count * (number + 1) // size):
        first = p * a.vectors
        v = min(a.vectors, total - first)
        panel = a.packed + first * wide * a.depth
        if a.turned:
            for u in range(v):
                c = (first + u) * a.lanes
                into = panel + u * wide
                lanes = min(a.lanes, a.width - c)
                call_turn(
                    a.turn, a.W + c * a.row, a.row, into, v * wide, lanes, a.depth, 0, np.float32(0)
                )
        else:
            lanes = min(v * a.lanes, a.width - first * a.lanes)
            for k in range(0, a.depth, rows):
                r = min(rows, a.depth - k)
                tile = table[(v - 1) * MAX_ROWS + r - 1]
                source = a.W + k * a.row + first * wide
                into = panel + k * v * wide
                call_tile(
                    tile,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    into,
                    v * wide,
                    source,
                    a.row,
                    0,
                    0,
                    lanes,
                    np.float32(-np.inf),
                )


@kernel(PACK)
def pack_rounded(number: int, size: int, at: Any) -> None:
    """Pack panels of pairs, as `pack_state` packs panels of numbers."""
    a = arguments(at)
    pairs = (a.depth + CHUNK - 1) // CHUNK * LANES
    total = (a.width + LANES - 1) // LANES
    count = (total + a.vectors - 1) // a.vectors
    for p in range(count * number // size, count * (number + 1) // size):
        first = p * a.vectors
        v = min(a.vectors, total - first)
        panel = a.packed + first * WIDE * pairs
        if a.turned:
            for u in range(v):
                c = (first + u) * LANES
                lanes = min(LANES, a.width - c)
                into = panel + u * WIDE
                call_narrow(a.narrow, a.W + c * a.row, a.row, into, v * WIDE, lanes, a.depth)
        else:
            lanes = min(v * LANES, a.width - first * LANES)
            call_narrow(a.narrow, a.W + first * WIDE, a.row, panel, v * WIDE, a.depth, lanes)
