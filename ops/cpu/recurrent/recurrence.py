"""The plan of a recurrent layer of one shape: products over all steps at once, and the steps, in
one lent scratch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ops.cpu.codegen.bfloat16 import LANES
from ops.cpu.elementwise.embedding import add_rows
from ops.cpu.gemm.bfloat16_choice import best_blocks
from ops.cpu.gemm.gemm import Strides
from ops.cpu.gemm.microkernel import tiles
from ops.cpu.gemm.narrow import CHUNK, narrowers
from ops.cpu.gemm.products import BFLOAT16, Plan, planned_as
from ops.cpu.gemm.turn import turns
from ops.cpu.recurrent.state_packing import PACK, pack_rounded, pack_state
from ops.cpu.recurrent.time_steps import STEPS, run_backward, run_forward
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, Workspace, aligned
from ops.errors import Array

# least sequences and hidden units for which the steps of a layer are faster in bfloat16
LEAST_ROUNDED = 16
_ONE = np.ones(1, np.float32)


class Sizes(NamedTuple):
    """Steps T, images N, features D, hidden units H, gate inputs G = 4H or H, and the rows R of the
    table that an index reads, 0 without one."""

    steps: int
    images: int
    features: int
    hidden: int
    width: int
    table: int = 0


class Recurrence:
    """Forward and backward of an LSTM's or RNN's state. Arrays are C-contiguous float32; they are
    not checked."""

    def __init__(
        self, team: Team, workspace: Workspace, sizes: Sizes, forward: int, backward: int,
        precision: str,
    ) -> None:  # fmt: skip
        """`forward` and `backward`: the kernels of a unit; `precision`: that of the products."""
        steps, images, features, hidden, width, table = sizes
        self._team = team
        self._workspace = workspace
        self._precision = precision
        self._sizes = sizes
        self._zeros = np.zeros(max(width, 64), np.float32)
        # rows of scalars that lie a multiple of 4 KiB apart would fall into the same lines of the
        # cache
        self._row_G = aligned(4 * width) + LINE
        self._row_C = aligned(4 * hidden) + LINE
        states = steps * images
        rows = table or states
        row = 4 * width if table else self._row_G
        self._inputs = [
            self._plan(
                (rows, width, features), (4 * features, 4), (4, 4 * features), width, bias=bias
            )
            for bias in (False, True)
        ]
        self._x = self._plan((rows, features, width), (row, 4), (4 * features, 4), features)
        self._w_x = self._plan((width, features, rows), (4, row), (4 * features, 4), features)
        self._w_h = self._plan((width, hidden, states), (4, self._row_G), (4 * hidden, 4), hidden)
        self._b = self._plan((1, width, rows), (0, 0), (row, 4), width)
        self._extra = self._plan((1, width, steps), (0, 0), (images * self._row_G, 4), width)
        rounds = precision == BFLOAT16 and min(images, hidden) >= LEAST_ROUNDED
        self._blocks = best_blocks() if rounds else None
        self._pack_kernel = pack_rounded if rounds else pack_state
        self._products = max(
            plan.scratch_bytes for plan in (self._x, self._w_x, self._w_h, self._b, self._extra)
        )
        # the gradient of the table's part: one row for each row of the table
        self._by_row = add_rows.block(count=states, width=width, table=table, step=self._row_G)
        self._forward = self._steps(hidden, forward)
        self._backward = self._steps(width, backward)
        self._packs = [
            self._pack(hidden, width, turned=True),
            self._pack(width, hidden, turned=False),
        ]

    def _plan(
        self,
        shape: tuple[int, int, int],
        a: Strides,
        b: Strides,
        columns: int,
        *,
        bias: bool = False,
    ) -> Plan:
        plan = planned_as(self._precision, self._team, shape, a, b, (4 * columns, 4), bias=bias)
        assert plan is not None
        return plan

    def _common(self) -> dict[str, int]:
        t = tiles(dense="AB")
        if self._blocks:
            return {
                "vectors": self._blocks.vectors,
                "table": t.table.ctypes.data,
                "rows": t.rows.ctypes.data,
            }
        return {
            "table": t.table.ctypes.data,
            "rows": t.rows.ctypes.data,
            "vectors": t.vectors,
            "lanes": t.lanes,
        }

    def _pack(self, depth: int, width: int, *, turned: bool) -> Any:
        row = 4 * (depth if turned else width)
        moves = {"turn": turns().plain}
        if self._blocks:
            at = narrowers()
            moves = {"narrow": at.along_turned if turned else at.across}
        return PACK(
            **self._common(),
            **moves,
            row=row,
            depth=depth,
            width=width,
            turned=turned,
        )

    def _steps(self, depth: int, unit: int) -> Any:
        s = self._sizes
        rounding = {}
        if blocks := self._blocks:
            rounding = {
                "begin": blocks.begin, "multiply": blocks.block, "end": blocks.end,
                "most": blocks.rows, "along": narrowers().along, "pitch": _pitch(depth),
            }  # fmt: skip
        return STEPS(
            **self._common(),
            **rounding,
            unit=unit,
            zeros=self._zeros.ctypes.data,
            steps=s.steps,
            images=s.images,
            hidden=s.hidden,
            width=s.width,
            sI=4 * s.width,
            sG=self._row_G,
            sC=self._row_C,
            sS=self._row_G,
        )

    def _packed_bytes(self) -> int:
        s = self._sizes
        edges = ((s.hidden, s.width), (s.width, s.hidden))
        if self._blocks:
            return max(2 * aligned(k, CHUNK) * aligned(n, LANES) for k, n in edges)
        return max(aligned(4 * n) * k for k, n in edges)

    def _rounded_bytes(self, depth: int) -> int:
        """Bytes of the rounded state of one step: all sequences, and the rows that a block may read
        past them."""
        return (self._sizes.images + self._blocks.rows) * _pitch(depth) if self._blocks else 0

    def forward(
        self,
        x: Array,
        index: Array | None,
        cont: Array,
        w_x: Array,
        b: Array | None,
        w_h: Array,
        h0: Array | None,
        c0: Array | None,
        extra: Array | None,
        h: Array,
        c: Array,
        gates: Array,
    ) -> None:
        """Compute gates, c and h of all steps. An RNN's gates and c are its h."""
        block = self._forward
        inputs = self._inputs[b is not None]
        table, block.packed, block.rounded, block.carried, block.sums, _ = self._forward_parts(
            self._workspace.take(self.forward_bytes)
        )
        block.inputs = _at(gates) if index is None else table
        inputs.run(_at(x), _at(w_x), block.inputs, block.packed, bias=_at(b))
        block.index, block.extra, block.gates, block.h, block.c, block.cont, block.h0, block.c0 = (
            map(_at, (index, extra, gates, h, c, cont, h0, c0))
        )
        self._packs[0].W = _at(w_h)
        self._packs[0].packed = block.packed
        self._team.run(self._pack_kernel, self._packs[0])
        self._team.run(run_forward, block)

    def backward(
        self,
        dh: int,
        h: Array,
        c: Array,
        gates: Array,
        x: Array,
        index: Array | None,
        cont: Array,
        w_x: Array,
        w_h: Array,
        h0: Array | None,
        c0: Array | None,
        dh_last: Array | None,
        dc_last: Array | None,
        out: Any,
        scratch: int,
    ) -> None:
        """Compute every gradient that has a destination in `out`. dh is an address, scratch the
        address of `scratch_bytes`."""
        s = self._sizes
        block = self._backward
        parts = self._parts(scratch)
        block.packed, block.rounded, block.carried, block.dc, *parts = parts
        block.d_gates, block.before, table, products = parts
        block.gates, block.h, block.c, block.cont, block.h0, block.c0 = map(
            _at, (gates, h, c, cont, h0, c0)
        )
        block.dh = dh
        block.dh_last = _at(dh_last)
        block.dc_last = _at(dc_last)
        block.d_h0 = _at(out.h0)
        block.d_c0 = _at(getattr(out, "c0", None))
        self._packs[1].W = _at(w_h)
        self._packs[1].packed = block.packed
        self._team.run(self._pack_kernel, self._packs[1])
        self._team.run(run_backward, block)
        d_gates = d_rows = block.d_gates
        if index is not None:
            self._by_row.rows = _at(index)
            self._by_row.values = d_gates
            self._by_row.out = d_rows = table
            self._team.run(add_rows, self._by_row)
        one = _at(_ONE)
        for plan, a, b, c_at in (
            (self._x, d_rows, _at(w_x), _at(out.x)), (self._w_x, d_rows, _at(x), _at(out.w_x)),
            (self._w_h, d_gates, block.before, _at(out.w_h)), (self._b, one, d_rows, _at(out.b)),
        ):  # fmt: skip
            if c_at:
                plan.run(a, b, c_at, products)
        if out.extra is not None:
            for n in range(s.images):
                self._extra.run(
                    one, d_gates + n * self._row_G, _at(out.extra) + 4 * n * s.width, products
                )

    def _parts(self, scratch: int) -> list[int]:
        """Addresses of packed weights, rounded states, carried dh, dc, d_gates, before, the table's
        d_gates and the products' scratch."""
        s = self._sizes
        rows = s.steps * s.images
        sizes = (
            self._packed_bytes(),
            self._rounded_bytes(s.width),
            s.images * self._row_C,
            aligned(4 * s.images * s.hidden),
            rows * self._row_G,
            aligned(4 * rows * s.hidden),
            aligned(4 * s.table * s.width),
        )
        return [scratch + sum(sizes[:part]) for part in range(len(sizes) + 1)]

    def _forward_parts(self, scratch: int) -> list[int]:
        """Addresses of the table's inputs, packed weights, rounded states, carried h, the products'
        sums, and the end."""
        s = self._sizes
        sizes = (
            aligned(4 * s.table * s.width),
            self._packed_bytes(),
            self._rounded_bytes(s.hidden),
            s.images * self._row_C,
            s.images * self._row_G,
        )
        return [scratch + sum(sizes[:part]) for part in range(len(sizes) + 1)]

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch that `backward` takes."""
        return self._parts(0)[-1] + self._products

    @property
    def forward_bytes(self) -> int:
        """Bytes of scratch that `forward` takes, at most."""
        table, packed, *_, end = self._forward_parts(0)
        return max(end, packed - table + max(plan.scratch_bytes for plan in self._inputs))


def _pitch(depth: int) -> int:
    """Bytes from a rounded row to the next: whole chunks, and a line so that rows do not fall into
    the same lines of the cache."""
    return 2 * aligned(depth, CHUNK) + LINE


def _at(x: Array | None) -> int:
    at: int = 0 if x is None else x.ctypes.data
    return at
