"""The block of a product that AMX's tiles compute, as LLVM IR.

    C[r, c] = max(I[r, c] + sum_k A[r, k] B[k, c], floor)      r < rows <= 32, c < columns <= 32

A and B are bfloat16, C and I float32. Numbers of a row of A are neighbours. B lies in rows of
pairs, B[k // 2][c][k % 2]; if k is odd, the last pair ends with 0. The distance of rows is free in
all four, so A may be part of a larger array, and so may B. I is a bias (stride 0), zeros, or C
itself to accumulate; address 0 writes the sums as they are, without a floor. Sums begin at 0, and I
is added last: many short sums err far less than one long sum.

The memory around the operands is not read, unless `padded` is 1: then A has whole tiles of 16 rows,
B of 16 columns, and both have whole chunks of 32 numbers along k, past k zeros. A padded block is
faster, since nothing passes through memory of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from ops.cpu.codegen.amx import (
    DEPTH,
    TILE_BYTES,
    TILE_ROWS,
    TileRegisters,
    check_amx,
    full_sizes,
    room,
)
from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import F32, I1, I32, I64, Vectors, counted, declared, function
from ops.cpu.codegen.kernel import calling

ROWS = COLUMNS = 2 * TILE_ROWS
NAMES = ("A", "sA", "B", "sB", "C", "sC", "I", "sI", "k", "rows", "columns", "padded")
ARGUMENTS = (*((name, I64) for name in NAMES), ("floor", F32))
# numbers of the tiles
SUMS = ((0, 1), (2, 3))
LEFT = (4, 5)
RIGHT = (6, 7)
STEP = I64(TILE_BYTES)
TILE = TILE_ROWS * TILE_BYTES  # bytes
Arguments = dict[str, ir.Value]


class Blocks(NamedTuple):
    """Addresses of three functions, and the most rows and vectors of 16 columns of a block. Each
    thread calls `begin` before its first block and `end` after its last one."""

    begin: int
    block: int
    end: int
    rows: int
    vectors: int


@functools.cache
def blocks() -> Blocks:
    """The functions, compiled or loaded on first use. Raises KernelsMissing with the reason if this
    process has no tiles."""
    check_amx()
    at = addresses("amx_block", build)
    return Blocks(at("begin"), at("block"), at("end"), ROWS, COLUMNS // TILE_ROWS)


def build(module: ir.Module) -> None:
    """Add the three functions."""
    b, _ = function(module, "begin", ())
    TileRegisters(b).configure(full_sizes(module))
    b.ret_void()
    b, _ = function(module, "end", ())
    TileRegisters(b).release()
    b.ret_void()
    b, a = function(module, "block", ARGUMENTS)
    whole = b.and_(b.or_(b.or_(a["rows"], a["columns"]), b.lshr(a["k"], I64(1))), I64(15))
    whole = b.icmp_signed("==", b.or_(whole, b.and_(a["k"], I64(1))), I64(0))
    in_place = b.or_(whole, b.icmp_signed("!=", a["padded"], I64(0)))

    def sized(write: Callable[[int, int], None]) -> None:
        """Write the code for one or two tiles of rows and of columns."""
        with b.if_else(b.icmp_signed("<=", a["rows"], I64(TILE_ROWS))) as (low, high):
            for down, branch in ((1, low), (2, high)):
                with branch:
                    narrow = b.icmp_signed("<=", a["columns"], I64(TILE_ROWS))
                    with b.if_else(narrow) as (one, two):
                        for across, side in ((1, one), (2, two)):
                            with side:
                                write(down, across)

    with b.if_else(in_place, likely=True) as (direct, staged):
        with direct:
            sized(lambda down, across: _sums(b, a, down, across))
        with staged:
            place = room(b, 4 * TILE)
            sized(lambda down, across: _staged_sums(b, a, down, across, place))
    sums = room(b, 4 * TILE)
    sized(lambda down, across: _finish(b, a, down, across, sums))
    b.ret_void()


def _chunk(
    t: TileRegisters, down: int, across: int, left: list[Any], right: list[Any],
    strides: tuple[ir.Value, ir.Value],
) -> None:  # fmt: skip
    """Add the products of 32 numbers along k. Loads alternate with products, so that a product
    waits for two loads only."""
    for row in range(down):
        t.load(LEFT[row], left[row], strides[0])
        for column in range(across):
            if row == 0:
                t.load(RIGHT[column], right[column], strides[1])
            t.multiply(SUMS[row][column], LEFT[row], RIGHT[column])


def _clear(t: TileRegisters, down: int, across: int) -> None:
    for row in range(down):
        for column in range(across):
            t.zero(SUMS[row][column])


def _sums(b: ir.IRBuilder, a: Arguments, down: int, across: int) -> None:
    """The sums of operands that are read where they lie, in whole tiles."""
    t = TileRegisters(b)
    _clear(t, down, across)
    below = b.mul(a["sA"], I64(TILE_ROWS))
    chunk_B = b.mul(a["sB"], I64(TILE_ROWS))

    def body(k: ir.Value) -> None:
        A = b.add(a["A"], b.mul(k, I64(2)))
        B = b.add(a["B"], b.mul(b.udiv(k, I64(DEPTH)), chunk_B))
        left = [b.add(A, b.mul(below, I64(row))) for row in range(down)]
        right = [b.add(B, I64(TILE_BYTES * column)) for column in range(across)]
        _chunk(t, down, across, left, right, (a["sA"], a["sB"]))

    counted(b, a["k"], DEPTH, body)


def _staged_sums(b: ir.IRBuilder, a: Arguments, down: int, across: int, place: ir.Value) -> None:
    """The sums of operands that end within a tile: each tile is copied, with zeros around."""
    t = TileRegisters(b)
    _clear(t, down, across)
    pairs = b.lshr(b.add(a["k"], I64(1)), I64(1))
    left = [b.add(place, I64(TILE * row)) for row in range(down)]
    right = [b.add(place, I64(TILE * (2 + column))) for column in range(across)]

    def body(k: ir.Value) -> None:
        numbers = b.sub(a["k"], k)
        for row, into in enumerate(left):
            first = I64(row * TILE_ROWS)
            A = b.add(b.add(a["A"], b.mul(a["sA"], first)), b.mul(k, I64(2)))
            _copied(b, A, a["sA"], b.sub(a["rows"], first), numbers, 2 * TILE_ROWS, into)
        pair = b.lshr(k, I64(1))
        for column, into in enumerate(right):
            first = I64(column * TILE_ROWS)
            B = b.add(b.add(a["B"], b.mul(a["sB"], pair)), I64(column * TILE_BYTES))
            columns = b.sub(a["columns"], first)
            _copied(b, B, a["sB"], b.sub(pairs, pair), columns, TILE_ROWS, into)
        _chunk(t, down, across, left, right, (STEP, STEP))

    counted(b, a["k"], DEPTH, body)


def _copied(
    b: ir.IRBuilder, source: ir.Value, stride: ir.Value, rows: ir.Value, count: ir.Value,
    lanes: int, into: ir.Value,
) -> None:  # fmt: skip
    """Copy `count` numbers of `rows` rows into a tile in memory, zeros elsewhere. `lanes` numbers
    fill a row; rows and count may be larger than a tile."""
    kind = ir.VectorType(ir.IntType(8 * TILE_BYTES // lanes), lanes)
    mask = _first(b, count, lanes)
    none = ir.Constant(mask.type, [0] * lanes)
    zero = ir.Constant(kind, [0] * lanes)
    key = f"v{lanes}i{8 * TILE_BYTES // lanes}"

    def row(r: ir.Value) -> None:
        pointer = b.inttoptr(b.add(source, b.mul(r, stride)), kind.as_pointer())
        only = b.select(b.icmp_signed("<", r, rows), mask, none)
        kinds = [pointer.type, I32, mask.type, kind]
        load = declared(b, f"llvm.masked.load.{key}.p0", kind, kinds)
        found = b.call(load, [pointer, I32(2), only, zero])
        place = b.inttoptr(b.add(into, b.mul(r, STEP)), kind.as_pointer())
        b.store(found, place, align=TILE_BYTES)

    counted(b, I64(TILE_ROWS), 1, row)


def _first(b: ir.IRBuilder, count: ir.Value, lanes: int) -> ir.Value:
    """The mask of the first `count` of so many lanes."""
    most = I64(lanes)
    count = b.select(b.icmp_signed("<", count, most), count, most)
    bits = b.sub(b.shl(I64(1), count), I64(1))
    return b.bitcast(b.trunc(bits, ir.IntType(lanes)), ir.VectorType(I1, lanes))


def _finish(b: ir.IRBuilder, a: Arguments, down: int, across: int, place: ir.Value) -> None:
    """Write the sums to C, or add I to them first, with the floor."""
    t = TileRegisters(b)
    plain = b.icmp_signed("==", a["I"], I64(0))
    for size, most in (("rows", down), ("columns", across)):
        plain = b.and_(plain, b.icmp_signed("==", a[size], I64(most * TILE_ROWS)))
    with b.if_else(plain) as (direct, through):
        with direct:
            for row in range(down):
                C = b.add(a["C"], b.mul(a["sC"], I64(row * TILE_ROWS)))
                for column in range(across):
                    t.store(SUMS[row][column], b.add(C, I64(TILE_BYTES * column)), a["sC"])
        with through:
            pitch = across * TILE_BYTES
            for row in range(down):
                for column in range(across):
                    at = row * TILE_ROWS * pitch + column * TILE_BYTES
                    t.store(SUMS[row][column], b.add(place, I64(at)), I64(pitch))
            _write(b, a, across, place, pitch)


def _write(b: ir.IRBuilder, a: Arguments, across: int, place: ir.Value, pitch: int) -> None:
    """C = max(I + sums, floor), the sums at `place`; if the address I is 0, C = sums."""
    v = Vectors(b, TILE_ROWS)
    rest = b.sub(a["columns"], I64(TILE_ROWS * (across - 1)))
    masks = [None] * (across - 1) + [v.mask(rest)]
    floor = v.splat(a["floor"])

    def row(r: ir.Value, added: bool) -> None:
        for column, mask in enumerate(masks):
            at = I64(column * TILE_BYTES)
            value = v.load(b.add(place, b.add(b.mul(r, I64(pitch)), at)))
            if added:
                start = v.load(b.add(b.add(a["I"], b.mul(r, a["sI"])), at), mask)
                value = v.at_least(b.fadd(start, value), floor)
            v.store(value, b.add(b.add(a["C"], b.mul(r, a["sC"])), at), mask)

    with b.if_else(b.icmp_signed("==", a["I"], I64(0))) as (plain, usual):
        with plain:
            counted(b, a["rows"], 1, lambda r: row(r, added=False))
        with usual:
            counted(b, a["rows"], 1, lambda r: row(r, added=True))


call_begin = call_end = calling(())
call_block = calling(ARGUMENTS)
