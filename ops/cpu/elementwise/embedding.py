"""The gradient of a table (Caffe's `Embed`): rows of values added up by the number of their row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.codegen.kernel import arguments, floats, integers, kernel, layout
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, address
from ops.errors import Array

GRAIN = 16  # float32 numbers of a cache line: two threads never write the same one

ROWS = layout("rows values out count width table step")


@kernel(ROWS)
def add_rows(number: int, size: int, at: Any) -> None:
    """out[r] = the sum of the values whose entry in rows is r, in their order. Each thread has some
    of the columns."""
    a = arguments(at)
    grains = (a.width + GRAIN - 1) // GRAIN
    first = grains * number // size * GRAIN
    end = min(a.width, grains * (number + 1) // size * GRAIN)
    rows = integers(a.rows, a.count)
    mine = end - first
    for r in range(a.table):
        total = floats(a.out + (r * a.width + first) * 4, mine)
        for i in range(mine):
            total[i] = np.float32(0)
    for n in range(a.count):
        total = floats(a.out + (rows[n] * a.width + first) * 4, mine)
        value = floats(a.values + n * a.step + first * 4, mine)
        for i in range(mine):
            total[i] += value[i]


class Tables(Fast):
    """The tables of `CpuBackend`: float32 rows side by side. The reference handles all other
    arrays."""

    def sum_rows(self, rows: Array, values: Array, out: Array) -> None:
        beside = values.shape[1] == 1 or values.strides[1] == 4
        if not (
            values.dtype == out.dtype == F32
            and beside
            and out.flags.c_contiguous
            and rows.flags.c_contiguous
        ):
            super().sum_rows(rows, values, out)
            return
        block = ROWS(
            rows=address(rows),
            values=address(values),
            out=address(out),
            count=len(rows),
            width=values.shape[1],
            table=len(out),
            step=values.strides[0],
        )
        self.team.run(add_rows, block)
