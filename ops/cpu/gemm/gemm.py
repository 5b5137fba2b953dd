"""Products of matrices: C[m, n] = max(sum_k A[m, k] B[k, n] + bias[n], floor), any strides, on the
tile micro-kernel.

A is read in place as scalars. B is read as vectors from aligned panels that every thread packs for
itself, block by block (Goto and van de Geijn, 2008). If A has few rows, B is read in place
(`thin`). The product can also be computed turned, C' = B' A', and its scratch turned into C.
`planned` takes the cheaper way: forward, the weights of a dense layer are read once, so they are
never packed. While one part of a large B is multiplied, the next is fetched.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ops.cpu.codegen.kernel import arguments, inlined, integers, kernel, layout
from ops.cpu.codegen.prefetch_hints import prefetch
from ops.cpu.gemm.microkernel import MAX_ROWS, call_tile, tiles
from ops.cpu.gemm.turn import call_turn, turns
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import aligned

IN_PLACE, COPIED, TURNED = range(3)  # where the vectors of B come from
# bytes of packed B: a part of the L2 cache; C, A and data fetched ahead take the rest
BLOCK_BYTES = 384 << 10
DEPTH = 128  # rows of a block of B where it is wide
FETCH_BYTES = 4 << 20  # a B larger than this is fetched ahead
# most rows of A for which packing B does not pay: NEAR_ROWS for a B of at most NEAR_BYTES, which
# the cache holds. A larger B in place is read again by each tile of A's rows, from rows that lie
# pages apart: from the third tile on this costs more than to pack it (AVX2, 32 rows of A: 45 ms in
# place and 20 ms packed for a B of 2048 x 9216).
THIN_ROWS = 32
THIN_TILES = 2
NEAR_ROWS = 128
NEAR_BYTES = 2 << 20
NOTHING = np.zeros(64, np.float32)  # the initial values of a panel without a bias

_BLOCK = layout(
    (
        "table rows vectors lanes turn A sAr sAk B sBk sBn C sCr I sIr sIc m n k pack split unit "
        "kc nc scratch step ahead"
    ),
    "floor",
)


@inlined
def panel_vectors(total: int, done: int, left: int) -> int:
    """Vectors of the next panel when `total - done` of them are shared evenly by `left` panels."""
    return (total - done + left - 1) // left


@inlined
def pack_copy(
    a: Any,
    table: Any,
    scratch: int,
    B: int,
    width: int,
    depth: int,
    total: int,
    count: int,
    rows: int,
) -> None:
    """Copy depth x width of B, whose rows are contiguous: a tile without a sum copies its initial
    values."""
    wide = a.lanes * 4
    none = np.float32(-np.inf)
    for row in range(0, depth, rows):
        r = min(rows, depth - row)
        col = 0
        for p in range(count):
            v = panel_vectors(total, col, count - p)
            into = scratch + col * wide * depth + row * v * wide
            lanes = min(v * a.lanes, width - col * a.lanes)
            source = B + col * wide + row * a.sBk
            call_tile(
                table[(v - 1) * MAX_ROWS + r - 1],
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
                a.sBk,
                0,
                0,
                lanes,
                none,
            )
            col += v


@inlined
def pack_turn(a: Any, scratch: int, B: int, width: int, depth: int, total: int, count: int) -> None:
    """Turn depth x width of B, whose columns are contiguous, into panels."""
    wide = a.lanes * 4
    col = 0
    for p in range(count):
        v = panel_vectors(total, col, count - p)
        for u in range(v):
            c = (col + u) * a.lanes
            into = scratch + col * wide * depth + u * wide
            lanes = min(a.lanes, width - c)
            call_turn(a.turn, B + c * a.sBn, a.sBn, into, v * wide, lanes, depth, 0, np.float32(0))
        col += v


@kernel(_BLOCK)
def product(number: int, size: int, at: Any) -> None:
    """Multiply. The threads share A's rows (split 0) or B's columns (split 1)."""
    a = arguments(at)
    table = integers(a.table, a.vectors * MAX_ROWS)
    rows_of = integers(a.rows, a.vectors)
    wide = a.lanes * 4
    none = np.float32(-np.inf)
    m0 = 0
    m1 = a.m
    n0 = 0
    n1 = a.n
    if a.split:
        units = (a.n + a.lanes - 1) // a.lanes
        n0 = units * number // size * a.lanes
        n1 = min(a.n, units * (number + 1) // size * a.lanes)
    else:
        units = (a.m + a.unit - 1) // a.unit
        m0 = units * number // size * a.unit
        m1 = min(a.m, units * (number + 1) // size * a.unit)
    scratch = a.scratch + number * a.step
    for n in range(n0, n1, a.nc):
        width = min(a.nc, n1 - n)
        total = (width + a.lanes - 1) // a.lanes
        count = (total + a.vectors - 1) // a.vectors
        rows = rows_of[panel_vectors(total, 0, count) - 1]
        for k in range(0, a.k, a.kc):
            depth = min(a.kc, a.k - k)
            B = a.B + k * a.sBk + n * a.sBn
            if a.pack == COPIED:
                pack_copy(a, table, scratch, B, width, depth, total, count, rows)
            else:
                pack_turn(a, scratch, B, width, depth, total, count)
            floor = a.floor if k + depth == a.k else none
            fetched = B + depth * a.sBk
            ends = B + (depth + min(a.kc, a.k - k - depth)) * a.sBk
            across = 0
            for m in range(m0, m1, rows):
                r = min(rows, m1 - m)
                A = a.A + m * a.sAr + k * a.sAk
                col = 0
                for p in range(count):
                    v = panel_vectors(total, col, count - p)
                    lanes = min(v * a.lanes, width - col * a.lanes)
                    C = a.C + m * a.sCr + n * 4 + col * wide
                    start = C
                    step = a.sCr
                    if k == 0:
                        start = a.I + m * a.sIr + (n + col * a.lanes) * a.sIc
                        step = a.sIr
                    b = scratch + col * wide * depth
                    if a.ahead and fetched < ends:
                        for line in range(0, min(1024, width * 4 - across), 64):
                            prefetch(fetched + across + line)
                        across += 1024
                        if across >= width * 4:
                            across = 0
                            fetched = fetched + a.sBk
                    tile = table[(v - 1) * MAX_ROWS + r - 1]
                    call_tile(
                        tile,
                        A,
                        a.sAr,
                        a.sAk,
                        0,
                        b,
                        v * wide,
                        0,
                        C,
                        a.sCr,
                        start,
                        step,
                        depth,
                        1,
                        lanes,
                        floor,
                    )
                    col += v


@kernel(_BLOCK)
def thin(number: int, size: int, at: Any) -> None:
    """Multiply with B in place. The threads share its columns. Each part is read once, a few rows
    at a time."""
    a = arguments(at)
    table = integers(a.table, a.vectors * MAX_ROWS)
    rows_of = integers(a.rows, a.vectors)
    wide = a.lanes * 4
    none = np.float32(-np.inf)
    units = (a.n + a.lanes - 1) // a.lanes
    n = units * number // size * a.lanes
    n1 = min(a.n, units * (number + 1) // size * a.lanes)
    total = (n1 - n + a.lanes - 1) // a.lanes
    count = (total + a.vectors - 1) // a.vectors
    for k in range(0, a.k, a.kc):
        depth = min(a.kc, a.k - k)
        floor = a.floor if k + depth == a.k else none
        col = 0
        for p in range(count):
            v = panel_vectors(total, col, count - p)
            rows = rows_of[v - 1]
            lanes = min(v * a.lanes, n1 - n - col * a.lanes)
            B = a.B + k * a.sBk + n * 4 + col * wide
            if a.ahead:
                for row in range(depth):
                    for vector in range(v, 2 * v):
                        prefetch(B + row * a.sBk + vector * wide)
            for m in range(0, a.m, rows):
                r = min(rows, a.m - m)
                A = a.A + m * a.sAr + k * a.sAk
                C = a.C + m * a.sCr + n * 4 + col * wide
                start = C
                step = a.sCr
                if k == 0:
                    start = a.I + m * a.sIr + (n + col * a.lanes) * a.sIc
                    step = a.sIr
                tile = table[(v - 1) * MAX_ROWS + r - 1]
                call_tile(
                    tile,
                    A,
                    a.sAr,
                    a.sAk,
                    0,
                    B,
                    a.sBk,
                    0,
                    C,
                    a.sCr,
                    start,
                    step,
                    depth,
                    1,
                    lanes,
                    floor,
                )
            col += v


_TURN = layout("turn lanes A sA B sB rows columns I sIc", "floor")


@kernel(_TURN)
def turn_out(number: int, size: int, at: Any) -> None:
    """B[c, r] = max(A[r, c] + I[r], floor), strips of A's rows shared by the threads."""
    a = arguments(at)
    strips = (a.rows + a.lanes - 1) // a.lanes
    for strip in range(strips * number // size, strips * (number + 1) // size):
        r = strip * a.lanes
        A = a.A + r * a.sA
        rows = min(a.lanes, a.rows - r)
        call_turn(a.turn, A, a.sA, a.B + r * 4, a.sB, rows, a.columns, a.I + r * a.sIc, a.floor)


class Product:
    """The plan of one product: shapes, strides and threads are fixed, addresses come with each
    call.

    The caller lends `scratch_bytes` to `run`. With `accumulate` the product is added to C.
    `planned` makes plans.
    """

    def __init__(
        self, team: Team, form: _Form, turned: bool, sC: int, accumulate: bool, bias: bool
    ) -> None:
        self._team = team
        self._form = form
        self._turned = turned
        self._accumulate = accumulate
        self._block = form.block(team.size)
        self._turn = None
        self._kernel = product if self._block.pack else thin
        self._block.I = NOTHING.ctypes.data
        self._block.floor = -math.inf
        self._result = 0
        if form.c is None:
            row = aligned(4 * form.n)
            self._result = row * form.m
            self._block.sCr = row
            self._turn = turn_out.block(
                turn=turns().out, lanes=tiles().lanes, sA=row, sB=sC, rows=form.m, columns=form.n,
                I=NOTHING.ctypes.data, sIc=4 * (bias and turned),
            )  # fmt: skip
        if accumulate:
            self._block.sIr = self._block.sCr
            self._block.sIc = 4
        elif bias and not turned:
            self._block.sIc = 4
        self.scratch_bytes: int = team.size * self._block.step + self._result

    def __repr__(self) -> str:
        form = self._form
        b = self._block
        where = "turned, " * self._turned + ("in place", "copied", "transposed")[b.pack]
        return (
            f"<Product {form.m}x{form.k}x{form.n} {where}, blocks {b.kc}x{b.nc}, split "
            f"{'mn'[b.split]}>"
        )

    def run(
        self, a: int, b: int, c: int, scratch: int, *, bias: int = 0, floor: float = -math.inf
    ) -> None:
        """C = max(A B + bias, floor) of the matrices at these addresses. `bias` must be as planned,
        0 for none."""
        block = self._block
        turn = self._turn
        block.A, block.B = (b, a) if self._turned else (a, b)
        block.scratch = scratch + self._result
        if turn is None:
            block.C = c
            block.floor = floor
            if block.sIc:
                block.I = c if self._accumulate else bias
            self._team.run(self._kernel, block)
            return
        block.C = scratch
        turn.A = scratch
        turn.B = c
        turn.floor = floor
        if turn.sIc:
            turn.I = bias
        elif block.sIc:
            block.I = bias
        self._team.run(self._kernel, block)
        self._team.run(turn_out, turn)


Strides = tuple[int, int]  # bytes of a matrix from row to row and from column to column


def planned(
    team: Team,
    shape: tuple[int, int, int],
    a: Strides,
    b: Strides,
    c: Strides,
    *,
    bias: bool = False,
    accumulate: bool = False,
) -> Product | None:
    """The plan of C (m, n) = A (m, k) B (k, n). None if B or C has no neighbours 4 bytes apart
    along any axis.

    `bias`: whether `run` will be given one, of n numbers.
    """
    m, n, k = shape
    row_C = c[0] if _unit(c[1], n) else None
    column_C = c[1] if _unit(c[0], m) else None
    if min(shape) < 1 or row_C is column_C is None or any(stride % 4 for stride in (*a, *b, *c)):
        return None
    native = _Form(m, n, k, a, b, row_C)
    turned = _Form(n, m, k, (b[1], b[0]), (a[1], a[0]), column_C)
    # a bias along the rows of a turned product is added as it is turned into C
    able = (native, turned) if not bias or column_C is None else (native,)
    forms = [
        form for form in able if form.packing() is not None and not (accumulate and form.c is None)
    ]
    if not forms:
        return None
    form = min(forms, key=_Form.cost)
    return Product(
        team, form, form is turned, (column_C if form is native else row_C) or 0, accumulate, bias
    )


class _Form(NamedTuple):
    """A product as the kernel computes it: strides of A, B and of C's rows (None: C lies the other
    way round)."""

    m: int
    n: int
    k: int
    a: Strides
    b: Strides
    c: int | None

    def packing(self) -> int | None:
        """Where B's vectors come from; None if B has no neighbours 4 bytes apart."""
        if _unit(self.b[1], self.n):
            near = 4 * self.k * self.n <= NEAR_BYTES
            if near and self.m <= NEAR_ROWS <= self.k:
                return IN_PLACE
            _, _, rows = self._panels(self.n)
            most = THIN_ROWS if near else min(THIN_ROWS, THIN_TILES * rows)
            return IN_PLACE if self.m <= most else COPIED
        return TURNED if _unit(self.b[0], self.k) else None

    def cost(self) -> float:
        """Cycles, roughly: two vectors of sums a cycle, plus the cost of packing, of turning, and
        of scalars that lie far apart."""
        vectors, count, rows = self._panels(self.n)
        most = vectors / count
        blocks = ((self.m // rows, rows), (1, self.m % rows))
        sums = (
            self.k
            * count
            * sum(times * max(r * most / 2, 4, (r + most) / 2) for times, r in blocks if r)
        )
        packed = self.k * vectors * tiles().lanes * (0.0, 0.15, 0.4)[self.packing() or 0]
        turned = 0.5 * self.m * self.n if self.c is None else 0.0
        far = self.m * self.k if abs(self.a[1]) > 64 and 4 * self.m * self.k > FETCH_BYTES else 0
        return float(sums + packed + turned + far)

    def block(self, size: int) -> Any:
        """The kernel's arguments for `size` threads, without addresses."""
        t = tiles()
        pack = self.packing()
        bytes_B = 4 * self.n * self.k
        split = self.n >= 2 * size * t.vectors * t.lanes or self.m < size * t.rows[t.vectors - 1]
        width = -(-self.n // (size * t.lanes)) * t.lanes if split else self.n
        depth, across = _blocks(self.k, width)
        if pack == IN_PLACE:
            depth = min(
                self.k, 128 if bytes_B <= NEAR_BYTES else 32 if bytes_B <= 4 * FETCH_BYTES else 16
            )
        vectors, _, rows = self._panels(across)
        return product.block(
            table=t.table.ctypes.data,
            rows=t.rows.ctypes.data,
            vectors=t.vectors,
            lanes=t.lanes,
            turn=turns().plain,
            sAr=self.a[0],
            sAk=self.a[1],
            sBk=self.b[0],
            sBn=self.b[1],
            sCr=self.c or 0,
            m=self.m,
            n=self.n,
            k=self.k,
            pack=pack,
            split=int(split),
            unit=rows,
            kc=depth,
            nc=across,
            step=aligned(4 * depth * vectors * t.lanes) if pack else 0,
            ahead=int(bytes_B > FETCH_BYTES and pack != TURNED and (pack == COPIED or depth == 16)),
        )

    def _panels(self, width: int) -> tuple[int, int, int]:
        """Return the vectors in that many columns, the panels that they make, and the rows of a
        tile."""
        t = tiles()
        vectors = -(-width // t.lanes)
        count = -(-vectors // t.vectors)
        return vectors, count, int(t.rows[-(-vectors // count) - 1])


def _unit(stride: int, count: int) -> bool:
    return stride == 4 or count == 1


def _blocks(k: int, width: int) -> tuple[int, int]:
    """Rows and columns of a block of B, in even shares, BLOCK_BYTES at most."""
    across = min(width, max(48, BLOCK_BYTES // 4 // min(k, DEPTH) // 48 * 48))
    depth = min(k, max(1, BLOCK_BYTES // 4 // across))
    return -(-k // -(-k // depth)), across
