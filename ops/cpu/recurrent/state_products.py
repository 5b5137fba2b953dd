"""The product of one step of a recurrent layer with the packed weights of its state, in float32 or
in bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.codegen.bfloat16 import LANES
from ops.cpu.codegen.kernel import inlined
from ops.cpu.gemm.amx_block import call_block
from ops.cpu.gemm.microkernel import MAX_ROWS, call_tile
from ops.cpu.gemm.narrow import CHUNK, call_narrow

WIDE = 4 * LANES  # bytes of a vector of pairs


@inlined
def state_product(
    a: Any,
    table: Any,
    rows_of: Any,
    A: int,
    sA: int,
    C: int,
    sC: int,
    start: int,
    step: int,
    n0: int,
    n1: int,
    k: int,
    n: int,
) -> None:
    """C = start + A packed, rows n0 to n1. `start` 0 stands for zeros; its rows are `step`
    apart."""
    wide = a.lanes * 4
    total = (n + a.lanes - 1) // a.lanes
    for first in range(0, total, a.vectors):
        v = min(a.vectors, total - first)
        rows = rows_of[v - 1]
        lanes = min(v * a.lanes, n - first * a.lanes)
        for m in range(n0, n1, rows):
            r = min(rows, n1 - m)
            into = C + m * sC + first * wide
            initial = start + m * step + first * wide if start else 0
            call_tile(
                table[(v - 1) * MAX_ROWS + r - 1],
                A + m * sA,
                sA,
                4,
                0,
                a.packed + first * wide * k,
                v * wide,
                0,
                into,
                sC,
                initial,
                step,
                k,
                1,
                lanes,
                np.float32(-np.inf),
            )


@inlined
def rounded_product(
    a: Any, A: int, sA: int, C: int, sC: int, start: int, step: int, n0: int, n1: int, k: int,
    n: int,
) -> None:  # fmt: skip
    """C = start + A packed as `state_product` does, of rows that are rounded first."""
    none = np.float32(-np.inf)
    pairs = (k + CHUNK - 1) // CHUNK * LANES
    total = (n + LANES - 1) // LANES
    for m in range(n0, n1, a.most):
        r = min(a.most, n1 - m)
        rounded = a.rounded + m * a.pitch
        call_narrow(a.along, A + m * sA, sA, rounded, a.pitch, r, k)
        for first in range(0, total, a.vectors):
            v = min(a.vectors, total - first)
            into = C + m * sC + first * WIDE
            call_block(
                a.multiply,
                rounded,
                a.pitch,
                a.packed + first * WIDE * pairs,
                v * WIDE,
                into,
                sC,
                start + m * step + first * WIDE if start else 0,
                step,
                2 * pairs,
                r,
                min(v * LANES, n - first * LANES),
                1,
                none,
            )


@inlined
def step_product(
    a: Any, table: Any, rows_of: Any, A: int, sA: int, C: int, sC: int, start: int, step: int,
    n0: int, n1: int, k: int, n: int,
) -> None:  # fmt: skip
    """C = start + A packed, in bfloat16 if the plan has a block for it."""
    if a.multiply:
        rounded_product(a, A, sA, C, sC, start, step, n0, n1, k, n)
    else:
        state_product(a, table, rows_of, A, sA, C, sC, start, step, n0, n1, k, n)
