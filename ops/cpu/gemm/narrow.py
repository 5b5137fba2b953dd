"""Two generated movers that round float32 numbers to bfloat16 and pair those that a product sums.

A pair is the numbers of rows 2 p and 2 p + 1 of B, or of these columns of A, in 4 bytes. If the
number of rows is odd, the last pair ends with 0.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from llvmlite import ir

from ops.cpu.codegen.bfloat16 import LANES, narrowed, paired
from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import I64, Vectors, counted, function
from ops.cpu.codegen.kernel import calling

ARGUMENTS = tuple((name, I64) for name in ("src", "sS", "dst", "sD", "rows", "count"))


class Narrowers(NamedTuple):
    """Addresses of the two functions."""

    along: int
    across: int


@functools.cache
def narrowers() -> Narrowers:
    """The narrowing movers, compiled or loaded on first use. Only for processors with
    AVX512_BF16."""

    def build(module: ir.Module) -> None:
        _build_along(module)
        _build_across(module)

    at = addresses("narrowers", build)
    return Narrowers(at("along"), at("across"))


def _build_along(module: ir.Module) -> None:
    """dst[r][p] = (src[r][2 p], src[r][2 p + 1]) for r < rows and 2 p < count: the pairs lie in
    rows.

    Numbers of a row of src are neighbours; strides are in bytes. A row of dst has room for whole
    vectors of 16 numbers of 2 bytes; past `count` it becomes 0.
    """
    b, a = function(module, "along", ARGUMENTS)
    v = Vectors(b, LANES)
    whole = b.and_(a["count"], I64(-LANES))
    mask = v.mask(b.sub(a["count"], whole))
    ragged = b.icmp_signed("<", whole, a["count"])

    def row(r: ir.Value) -> None:
        src = b.add(a["src"], b.mul(r, a["sS"]))
        dst = b.add(a["dst"], b.mul(r, a["sD"]))

        def piece(at: ir.Value, only: ir.Value | None = None) -> None:
            small = narrowed(b, v.load(b.add(src, b.mul(at, I64(4))), only))
            into = b.inttoptr(b.add(dst, b.mul(at, I64(2))), small.type.as_pointer())
            b.store(small, into, align=4)

        counted(b, whole, LANES, piece)
        with b.if_then(ragged):
            piece(whole, mask)

    counted(b, a["rows"], 1, row)
    b.ret_void()


def _build_across(module: ir.Module) -> None:
    """dst[p][c] = (src[2 p][c], src[2 p + 1][c]) for 2 p < rows and c < count: the pairs lie across
    two rows, which are woven into one.

    Numbers of a row of src are neighbours; strides are in bytes. A row of dst has room for whole
    vectors of 16 pairs of 4 bytes; past `count` it becomes 0.
    """
    b, a = function(module, "across", ARGUMENTS)
    v = Vectors(b, LANES)

    def pair(row: ir.Value) -> None:
        src = b.add(a["src"], b.mul(row, a["sS"]))
        dst = b.add(a["dst"], b.mul(b.lshr(row, I64(1)), a["sD"]))
        second = b.icmp_signed("<", b.add(row, I64(1)), a["rows"])
        above = b.select(second, a["count"], I64(0))

        def piece(at: ir.Value) -> None:
            place = b.add(src, b.mul(at, I64(4)))
            low = v.load(place, v.mask(b.sub(a["count"], at)))
            high = v.load(b.add(place, a["sS"]), v.mask(b.sub(above, at)))
            woven = paired(b, low, high)
            into = b.inttoptr(b.add(dst, b.mul(at, I64(4))), woven.type.as_pointer())
            b.store(woven, into, align=4)

        counted(b, a["count"], LANES, piece)

    counted(b, a["rows"], 2, pair)
    b.ret_void()


call_narrow = calling(ARGUMENTS)
