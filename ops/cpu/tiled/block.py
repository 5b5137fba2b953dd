"""The block of every product in bfloat16 here: sums of up to 32 x 32 products of rows and columns,
over chunks that may lie anywhere.

    into[r, c] = old + sum_i sum_d A[i][r, d] * B[i][d, c]      r, c < 32, d < 32

`old` is what `into` had if `more` is not 0, else 0: so a sum can be made in several calls.

Chunk i of A begins `table[2 i]` bytes after A, chunk i of B `table[2 i + 1]` bytes after B. So one
block serves all taps of a convolution. A has rows of bfloat16 numbers, sA bytes apart. B has rows
of pairs, B[d // 2][c][d % 2], sB bytes apart. Both are read in whole tiles: beyond `rows` and
`columns` they may hold anything that may be read. `into` has rows of 32 float32 numbers; with up
to 16 rows or columns only these are computed.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from llvmlite import ir

from ops.cpu.codegen.amx import TILE_BYTES, TILE_ROWS, TileRegisters
from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import I64, counted, function
from ops.cpu.gemm.amx_block import LEFT, RIGHT, SUMS, blocks

SIDE = 2 * TILE_ROWS  # rows and columns of a block
PITCH = SIDE * 4  # bytes of a row of its sums
BLOCK_BYTES = SIDE * PITCH
NAMES = ("A", "sA", "B", "sB", "table", "chunks", "rows", "columns", "into", "more")
ARGUMENTS = tuple((name, I64) for name in NAMES)


class Block(NamedTuple):
    """Addresses of three functions. Each thread calls `begin` before its first block and `end`
    after its last one."""

    begin: int
    sums: int
    end: int


@functools.cache
def block() -> Block:
    """The functions, compiled or loaded on first use. Raises KernelsMissing with the reason if this
    process has no tiles."""
    tiles = blocks()
    return Block(tiles.begin, addresses("tiled_block", build)("sums"), tiles.end)


def build(module: ir.Module) -> None:
    """Add the function that computes a block."""
    b, a = function(module, "sums", ARGUMENTS)
    with b.if_else(b.icmp_signed("<=", a["rows"], I64(TILE_ROWS))) as (low, high):
        for down, branch in ((1, low), (2, high)):
            with branch:
                narrow = b.icmp_signed("<=", a["columns"], I64(TILE_ROWS))
                with b.if_else(narrow) as (one, two):
                    for across, side in ((1, one), (2, two)):
                        with side:
                            _sums(b, a, down, across)
    b.ret_void()


def _sums(b: ir.IRBuilder, a: dict[str, ir.Value], down: int, across: int) -> None:
    """Write the sums of `down` x `across` tiles."""
    t = TileRegisters(b)
    pitch = I64(PITCH)
    places = {
        SUMS[row][column]: b.add(a["into"], I64(row * TILE_ROWS * PITCH + column * TILE_BYTES))
        for row in range(down)
        for column in range(across)
    }
    with b.if_else(b.icmp_signed("==", a["more"], I64(0))) as (new, old):
        with new:
            for tile in places:
                t.zero(tile)
        with old:
            for tile, at in places.items():
                t.load(tile, at, pitch)
    below = b.mul(a["sA"], I64(TILE_ROWS))

    def chunk(i: ir.Value) -> None:
        entry = b.add(a["table"], b.shl(i, I64(4)))
        A, B = (
            b.add(a[name], b.load(b.inttoptr(b.add(entry, I64(at)), I64.as_pointer())))
            for name, at in (("A", 0), ("B", 8))
        )
        for row in range(down):
            t.load(LEFT[row], b.add(A, b.mul(below, I64(row))), a["sA"])
            for column in range(across):
                if row == 0:
                    t.load(RIGHT[column], b.add(B, I64(TILE_BYTES * column)), a["sB"])
                t.multiply(SUMS[row][column], LEFT[row], RIGHT[column])

    counted(b, a["chunks"], 1, chunk)
    for tile, at in places.items():
        t.store(tile, at, pitch)
