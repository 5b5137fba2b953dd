"""Generated movers that round float32 numbers to bfloat16 and bring them into the layout of blocks:
rows of numbers along k for A, rows of pairs for B.

A pair is the numbers 2 p and 2 p + 1 along k, in 4 bytes. Each of the two layouts has a mover for
either order of the source. Everything is written in whole chunks of 32 numbers along k and in whole
vectors, with zeros past the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from ops.cpu.codegen.bfloat16 import LANES, narrowed, paired
from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import I64, Vectors, counted, function
from ops.cpu.codegen.kernel import calling
from ops.cpu.gemm.permute import turned

ARGUMENTS = tuple((name, I64) for name in ("src", "sS", "dst", "sD", "rows", "count"))
CHUNK = 2 * LANES  # numbers along k that are moved at once
VECTOR = I64(4 * LANES)  # bytes
Arguments = dict[str, ir.Value]


class Narrowers(NamedTuple):
    """Addresses of the movers (src, sS, dst, sD, rows, count). Numbers of a row of src are
    neighbours; strides are in bytes.

    along: dst[r][k] = src[r][k], for A. across: dst[k / 2][c][k % 2] = src[k][c], for B.
    along_turned: dst[k / 2][r][k % 2] = src[r][k] for at most 16 rows, for B.
    across_turned: dst[c][k] = src[k][c] for at most 16 columns, for A.
    """

    along: int
    across: int
    along_turned: int
    across_turned: int


@functools.cache
def narrowers() -> Narrowers:
    """The narrowing movers, compiled or loaded on first use. Only for processors with
    AVX512_BF16."""

    def build(module: ir.Module) -> None:
        _build_along(module)
        _build_across(module)
        _build_squares(module, "along_turned", _of_row, lambda a: (a["count"], a["rows"]))
        _build_squares(module, "across_turned", _of_rows, lambda a: (a["rows"], a["count"]))

    at = addresses("narrowers", build)
    return Narrowers(*(at(name) for name in Narrowers._fields))


class _Source:
    """The numbers of a source from one place on: `rows` rows of `count` numbers, zeros past
    them."""

    def __init__(
        self, v: Vectors, place: ir.Value, stride: ir.Value, rows: ir.Value, count: ir.Value
    ) -> None:
        self.v = v
        self._place = place
        self._stride = stride
        self._rows = rows
        self._count = count

    def vector(self, row: int, column: int, whole: bool) -> ir.Value:
        """The vector of a row from a column on; `whole`: all its numbers exist."""
        b = self.v.b
        place = b.add(self._place, b.add(b.mul(self._stride, I64(row)), I64(4 * column)))
        if whole:
            return self.v.load(place)
        there = b.icmp_signed("<", I64(row), self._rows)
        count = b.select(there, b.sub(self._count, I64(column)), I64(0))
        return self.v.load(place, self.v.mask(count))


def _put(b: ir.IRBuilder, value: ir.Value, place: ir.Value) -> None:
    b.store(value, b.inttoptr(place, value.type.as_pointer()), align=4)


def _build_along(module: ir.Module) -> None:
    b, a = function(module, "along", ARGUMENTS)
    v = Vectors(b, LANES)
    whole = b.and_(a["count"], I64(-CHUNK))

    def row(r: ir.Value) -> None:
        src = b.add(a["src"], b.mul(r, a["sS"]))
        dst = b.add(a["dst"], b.mul(r, a["sD"]))

        def piece(at: ir.Value, full: bool) -> None:
            place = b.add(src, b.mul(at, I64(4)))
            source = _Source(v, place, I64(0), I64(1), b.sub(a["count"], at))
            _put(b, _of_row(source, 0, full), b.add(dst, b.mul(at, I64(2))))

        counted(b, whole, CHUNK, lambda at: piece(at, full=True))
        with b.if_then(b.icmp_signed("<", whole, a["count"])):
            piece(whole, full=False)

    counted(b, a["rows"], 1, row)
    b.ret_void()


def _build_across(module: ir.Module) -> None:
    b, a = function(module, "across", ARGUMENTS)
    v = Vectors(b, LANES)
    # whole chunks: pairs past the last row become zeros
    rows = b.and_(b.add(a["rows"], I64(CHUNK - 1)), I64(-CHUNK))

    def pair(row: ir.Value) -> None:
        dst = b.add(a["dst"], b.mul(b.lshr(row, I64(1)), a["sD"]))

        def piece(at: ir.Value) -> None:
            place = b.add(b.add(a["src"], b.mul(row, a["sS"])), b.mul(at, I64(4)))
            source = _Source(v, place, a["sS"], b.sub(a["rows"], row), b.sub(a["count"], at))
            _put(b, _of_rows(source, 0, full=False), b.add(dst, b.mul(at, I64(4))))

        counted(b, a["count"], LANES, piece)

    counted(b, rows, 2, pair)
    b.ret_void()


def _of_row(source: _Source, row: int, full: bool) -> ir.Value:
    """32 numbers of a row, rounded: 16 pairs."""
    both = (source.vector(row, column, full) for column in (0, LANES))
    return narrowed(source.v.b, *both)


def _of_rows(source: _Source, row: int, full: bool) -> ir.Value:
    """The pairs of rows 2 row and 2 row + 1, rounded."""
    both = (source.vector(2 * row + odd, 0, full) for odd in (0, 1))
    return paired(source.v.b, *both)


def _build_squares(
    module: ir.Module,
    name: str,
    pairs: Callable[[_Source, int, bool], ir.Value],
    sizes: Callable[[Arguments], tuple[ir.Value, ir.Value]],
) -> None:
    """Add the mover of squares of 16 x 16 pairs: each is read by `pairs`, vector by vector, and
    transposed. `sizes`: the length along k, and the number of vectors' lanes across."""
    b, a = function(module, name, ARGUMENTS)
    v = Vectors(b, LANES)
    depth, across = sizes(a)
    in_rows = depth is a["count"]  # the numbers along k are neighbours
    step_in, step_out = (I64(4), a["sD"]) if in_rows else (a["sS"], I64(4))

    def square(k: ir.Value, full: bool) -> None:
        place = b.add(a["src"], b.mul(k, step_in))
        left = b.sub(depth, k)
        inside: Any = (across, left) if in_rows else (left, across)
        source = _Source(v, place, a["sS"], *inside)
        found = [b.bitcast(pairs(source, lane, full), v.type) for lane in range(LANES)]
        into = b.add(a["dst"], b.mul(b.lshr(k, I64(1)), step_out))
        for lane, value in enumerate(turned(b, found, LANES)):
            v.store(value, b.add(into, b.mul(a["sD"], I64(lane))))

    whole = b.select(b.icmp_signed("<", across, I64(LANES)), I64(0), b.and_(depth, I64(-CHUNK)))
    counted(b, whole, CHUNK, lambda k: square(k, full=True))
    rest = b.sub(depth, whole)
    counted(b, rest, CHUNK, lambda k: square(b.add(whole, k), full=False))
    b.ret_void()


call_narrow = calling(ARGUMENTS)
