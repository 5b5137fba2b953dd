"""Recurrent layers step by step, for LSTM and RNN alike: the state's product and the units of one
step after the other.

The threads share the sequences of a batch, so no step waits for another thread. The state's weights
are packed into panels first (`state_packing`). If `multiply` is not 0, it is the address of a block
that multiplies in bfloat16.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.codegen.kernel import arguments, floats, inlined, integers, kernel, layout
from ops.cpu.gemm.amx_block import call_begin, call_end
from ops.cpu.gemm.microkernel import MAX_ROWS
from ops.cpu.recurrent.state_products import step_product
from ops.cpu.recurrent.units import call_backward, call_forward

TILE_ROWS = 16  # rows that a block in bfloat16 multiplies in the time of one

STEPS = layout(
    "table rows vectors lanes unit inputs index extra sums gates d_gates h c cont h0 c0 dh dh_last "
    "dc_last d_h0 d_c0 before packed carried dc zeros steps images hidden width sI sG sC sS "
    "begin multiply end along rounded pitch most"
)


@inlined
def share(a: Any, rows: int, number: int, size: int) -> Any:
    """The sequences of this thread, in whole tiles."""
    if a.multiply:
        rows = TILE_ROWS
    units = (a.images + rows - 1) // rows
    return units * number // size * rows, min(a.images, units * (number + 1) // size * rows)


@inlined
def scaled_copy(source: int, into: int, count: int, factor: float) -> None:
    """into = factor * source."""
    x = floats(source, count)
    y = floats(into, count)
    for i in range(count):
        y[i] = factor * x[i]


@kernel(STEPS)
def run_forward(number: int, size: int, at: Any) -> None:
    """inputs -> gates (T, N, width), h and c (T, N, hidden). The inputs have a row, sI apart, for
    each step of each sequence, or for each row of the table that `index` (T, N) reads."""
    a = arguments(at)
    table = integers(a.table, a.vectors * MAX_ROWS)
    rows_of = integers(a.rows, a.vectors)
    n0, n1 = share(a, rows_of[a.vectors - 1], number, size)
    cont = floats(a.cont, a.steps * a.images)
    index = integers(a.index, a.steps * a.images)
    row = a.hidden * 4
    row_G = a.width * 4
    if a.multiply:
        call_begin(a.begin)
    if a.h0:
        for n in range(n0, n1):
            scaled_copy(a.h0 + n * row, a.carried + n * a.sC, a.hidden, cont[n])
    for t in range(a.steps):
        sums = a.zeros
        step = 0
        if a.extra:
            sums = a.extra
            step = row_G
        if t > 0 or a.h0:
            step_product(
                a, table, rows_of, a.carried, a.sC, a.sums, a.sS, a.extra, row_G, n0, n1, a.hidden,
                a.width,
            )  # fmt: skip
            sums = a.sums
            step = a.sS
        for n in range(n0, n1):
            this = t * a.images + n
            read = index[this] if a.index else this
            c_before = a.c + (this - a.images) * row
            if t == 0:
                c_before = a.c0 + n * row if a.c0 else a.zeros
            following = cont[this + a.images] if t + 1 < a.steps else np.float32(0)
            call_forward(
                a.unit,
                sums + n * step,
                a.inputs + read * a.sI,
                a.gates + this * row_G,
                c_before,
                a.c + this * row,
                a.h + this * row,
                a.carried + n * a.sC,
                a.hidden,
                cont[this],
                following,
            )
    if a.multiply:
        call_end(a.end)


@kernel(STEPS)
def run_backward(number: int, size: int, at: Any) -> None:
    """dh (T, N, hidden) -> d_gates (T, N, rows sG apart), before = cont h' (T, N, hidden), d_h0,
    d_c0 (N, hidden)."""
    a = arguments(at)
    table = integers(a.table, a.vectors * MAX_ROWS)
    rows_of = integers(a.rows, a.vectors)
    n0, n1 = share(a, rows_of[a.vectors - 1], number, size)
    cont = floats(a.cont, a.steps * a.images)
    row = a.hidden * 4
    if a.multiply:
        call_begin(a.begin)
    for n in range(n0, n1):
        scaled_copy(
            a.dh_last + n * row if a.dh_last else a.zeros,
            a.carried + n * a.sC,
            a.hidden,
            np.float32(1),
        )
        scaled_copy(
            a.dc_last + n * row if a.dc_last else a.zeros, a.dc + n * row, a.hidden, np.float32(1)
        )
    for t in range(a.steps - 1, -1, -1):
        d_gates = a.d_gates + t * a.images * a.sG
        for n in range(n0, n1):
            this = t * a.images + n
            here = this * row
            earlier = (this - a.images) * row
            h_before = a.h + earlier
            c_before = a.c + earlier
            if t == 0:
                h_before = a.h0 + n * row if a.h0 else a.zeros
                c_before = a.c0 + n * row if a.c0 else a.zeros
            following = cont[this + a.images] if t + 1 < a.steps else np.float32(1)
            call_backward(
                a.unit,
                a.gates + this * a.width * 4,
                c_before,
                a.c + here,
                a.h + here,
                h_before,
                a.dh + here,
                a.carried + n * a.sC,
                a.dc + n * row,
                d_gates + n * a.sG,
                a.before + here,
                a.hidden,
                cont[this],
                following,
            )
        if t > 0 or a.d_h0:
            step_product(
                a, table, rows_of, d_gates, a.sG, a.carried, a.sC, 0, 0, n0, n1, a.width, a.hidden
            )
    if a.multiply:
        call_end(a.end)
    for n in range(n0, n1):
        if a.d_h0:
            scaled_copy(a.carried + n * a.sC, a.d_h0 + n * row, a.hidden, cont[n])
        if a.d_c0:
            scaled_copy(a.dc + n * row, a.d_c0 + n * row, a.hidden, np.float32(1))


ROWS = layout("unit x y dx junk zeros rows count")


@kernel(ROWS)
def squash(number: int, size: int, at: Any) -> None:
    """y = tanh(y), rows x count numbers: a unit of the RNN without a state."""
    a = arguments(at)
    for n in range(a.rows * number // size, a.rows * (number + 1) // size):
        y = a.y + n * a.count * 4
        call_forward(a.unit, y, a.zeros, y, y, y, y, y, a.count, np.float32(1), np.float32(1))


@kernel(ROWS)
def squash_back(number: int, size: int, at: Any) -> None:
    """dx = x (1 - y^2) where y = tanh(..) and x is its gradient."""
    a = arguments(at)
    junk = a.junk + number * a.count * 4
    for n in range(a.rows * number // size, a.rows * (number + 1) // size):
        x = a.x + n * a.count * 4
        y = a.y + n * a.count * 4
        dx = a.dx + n * a.count * 4
        call_backward(
            a.unit, y, y, y, y, y, x, x, y, dx, junk, a.count, np.float32(1), np.float32(0)
        )
