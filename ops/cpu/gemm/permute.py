"""Two generated movers of memory: a block transposed in registers, and rows of numbers copied to
other rows.

Packing consists of these two.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from llvmlite import ir

from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import I32, I64, Vectors, counted, function
from ops.cpu.codegen.target import host

TRANSPOSE = tuple((name, I64) for name in ("src", "sS", "nS", "nT", "dst", "sD", "nW"))
COPY = tuple((name, I64) for name in ("src", "sS", "dst", "sD", "rows", "floats"))


class Movers(NamedTuple):
    """Addresses of the two functions."""

    transpose: int
    copy: int


@functools.cache
def movers() -> Movers:
    """The movers of this machine, compiled or loaded on first use."""

    def build(module: ir.Module) -> None:
        _build_transpose(module, host().lanes)
        _build_copy(module, host().lanes)

    at = addresses("movers", build)
    return Movers(at("transpose"), at("copy"))


def _build_transpose(module: ir.Module, lanes: int) -> None:
    """dst[t][s] = src[s][t] for t < nT <= lanes, and s < nW <= lanes, 0 where s >= nS. Strides in
    bytes."""
    b, a = function(module, "transpose", TRANSPOSE)
    v = Vectors(b, lanes)
    full = b.icmp_signed("==", b.and_(b.and_(a["nS"], a["nT"]), a["nW"]), I64(lanes))
    with b.if_else(full) as (whole, part):
        with whole:
            rows = [v.load(b.add(a["src"], b.mul(a["sS"], I64(r)))) for r in range(lanes)]
            for t, row in enumerate(turned(b, rows, lanes)):
                v.store(row, b.add(a["dst"], b.mul(a["sD"], I64(t))))
        with part:
            rows = []
            for r in range(lanes):
                count = b.select(b.icmp_signed("<", I64(r), a["nS"]), a["nT"], I64(0))
                rows.append(v.load(b.add(a["src"], b.mul(a["sS"], I64(r))), v.mask(count)))
            for t, row in enumerate(turned(b, rows, lanes)):
                count = b.select(b.icmp_signed("<", I64(t), a["nT"]), a["nW"], I64(0))
                v.store(row, b.add(a["dst"], b.mul(a["sD"], I64(t))), v.mask(count))
    b.ret_void()


def turned(b: ir.IRBuilder, rows: list[ir.Value], lanes: int) -> list[ir.Value]:
    """The transpose of a square of vectors: for each bit of the lane number, exchange the two
    off-diagonal halves."""
    step = 1
    while step < lanes:
        low = [lane - step + lanes if lane & step else lane for lane in range(lanes)]
        high = [lane + lanes if lane & step else lane + step for lane in range(lanes)]
        picks = [ir.Constant(ir.VectorType(I32, lanes), numbers) for numbers in (low, high)]
        for r in (r for r in range(lanes) if not r & step):
            pair = rows[r], rows[r + step]
            rows[r], rows[r + step] = (b.shuffle_vector(*pair, pick) for pick in picks)
        step *= 2
    return rows


def _build_copy(module: ir.Module, lanes: int) -> None:
    """dst[r][f] = src[r][f] for r < rows, f < floats. Strides in bytes."""
    b, a = function(module, "copy", COPY)
    v = Vectors(b, lanes)
    whole = b.and_(a["floats"], I64(-lanes))
    rest = b.sub(a["floats"], whole)
    mask = v.mask(rest)
    ragged = b.icmp_signed(">", rest, I64(0))

    def row(r: ir.Value) -> None:
        src = b.add(a["src"], b.mul(r, a["sS"]))
        dst = b.add(a["dst"], b.mul(r, a["sD"]))

        def piece(f: ir.Value) -> None:
            at = b.mul(f, I64(4))
            v.store(v.load(b.add(src, at)), b.add(dst, at))

        counted(b, whole, lanes, piece)
        with b.if_then(ragged):
            at = b.mul(whole, I64(4))
            v.store(v.load(b.add(src, at), mask), b.add(dst, at), mask)

    counted(b, a["rows"], 1, row)
    b.ret_void()
