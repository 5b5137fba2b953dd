"""Matrices turned by 90 degrees: blocks of lanes x lanes numbers, transposed in registers, as LLVM
IR.

    B[c, r] = A[r, c]                          turn: for packing
    B[c, r] = max(A[r, c] + bias[r], floor)    turn_out: for a product that was computed the other
                                               way round

r < rows <= lanes, c < columns. Columns of A and rows r of B are side by side (4 bytes); the other
strides are in bytes.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from llvmlite import ir

from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import F32, I64, Vectors, counted, function
from ops.cpu.codegen.kernel import calling
from ops.cpu.codegen.target import host

ARGUMENTS = (
    *((name, I64) for name in ("A", "sA", "B", "sB", "rows", "columns", "bias")),
    ("floor", F32),
)


class Turns(NamedTuple):
    """Addresses of the two kernels."""

    plain: int
    out: int


@functools.cache
def turns() -> Turns:
    """The transposing kernels of this machine, compiled or loaded on first use."""
    lanes = host().lanes

    def build(module: ir.Module) -> None:
        for name, finish in (("turn", False), ("turn_out", True)):
            build_turn(module, name, lanes, finish=finish)

    at = addresses("turn", build)
    return Turns(at("turn"), at("turn_out"))


def build_turn(module: ir.Module, name: str, lanes: int, *, finish: bool) -> None:
    """Add the kernel for strips of up to `lanes` rows; `finish`: with bias and floor."""
    b, a = function(module, name, ARGUMENTS)
    v = Vectors(b, lanes)
    row_mask = v.mask(a["rows"])
    bias = v.load(a["bias"], row_mask) if finish else None

    def block(column: ir.Value, masks: list[Any], store_masks: list[Any]) -> None:
        start = b.add(a["A"], b.mul(column, I64(4)))
        rows = [v.load(b.add(start, b.mul(a["sA"], I64(r))), masks[r]) for r in range(lanes)]
        into = b.add(a["B"], b.mul(column, a["sB"]))
        for c, value in enumerate(_turned(b, rows, lanes)):
            if bias is not None:
                value = v.at_least(b.fadd(value, bias), v.splat(a["floor"]))
            v.store(value, b.add(into, b.mul(a["sB"], I64(c))), store_masks[c])

    whole = b.and_(a["columns"], I64(-lanes))
    with b.if_else(b.icmp_signed(">=", a["rows"], I64(lanes))) as (full, part):
        with full:
            counted(b, whole, lanes, lambda column: block(column, [None] * lanes, [None] * lanes))
            with b.if_then(b.icmp_signed("<", whole, a["columns"])):
                block(whole, *_masks(b, v, a, whole, row_mask))
        with part:
            counted(
                b,
                a["columns"],
                lanes,
                lambda column: block(column, *_masks(b, v, a, column, row_mask)),
            )
    b.ret_void()


def _masks(
    b: ir.IRBuilder, v: Vectors, a: dict[str, ir.Value], column: ir.Value, row_mask: ir.Value
) -> tuple[list[Any], list[Any]]:
    """The masks to read each row of A, and to write each row of B: nothing beyond the last row and
    column."""
    left = b.sub(a["columns"], column)
    nothing = ir.Constant(v.masks, [0] * v.lanes)
    column_mask = v.mask(left)
    reads = [
        b.select(b.icmp_signed("<", I64(r), a["rows"]), column_mask, nothing)
        for r in range(v.lanes)
    ]
    writes = [b.select(b.icmp_signed("<", I64(c), left), row_mask, nothing) for c in range(v.lanes)]
    return reads, writes


def _turned(b: ir.IRBuilder, rows: list[ir.Value], lanes: int) -> list[ir.Value]:
    """The columns of a square block. Halves of growing size are exchanged between rows, log2(lanes)
    times."""
    size = 1
    while size < lanes:
        following = list(rows)
        for r in range(lanes):
            if r & size:
                continue
            low = [lane if not lane & size else lanes + lane - size for lane in range(lanes)]
            high = [lane + size if not lane & size else lanes + lane for lane in range(lanes)]
            for target, picks in ((r, low), (r + size, high)):
                chosen = ir.Constant(ir.VectorType(ir.IntType(32), lanes), picks)
                following[target] = b.shuffle_vector(rows[r], rows[r + size], chosen)
        rows = following
        size = size * 2
    return rows


call_turn = calling(ARGUMENTS)
