"""The loops that all kernels of depthwise convolution share: the work of a thread, the padding, the
products of a block with one row of the source.

A unit of work is a block of columns in one or two rows, for a chunk of images that go through all
rows together. The chunk is so small that the rows which the next unit reads again are still in the
second-level cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from ops.cpu.codegen.code import Code, Mask
from ops.cpu.codegen.ir_tools import I32, fetch
from ops.cpu.codegen.target import host
from ops.cpu.codegen.values import Choice, Variable, Vec, Whole
from ops.cpu.depthwise.blocks import Reads
from ops.cpu.gemm.calls import up

# x is the source and y the result, or dy, in float32 or bfloat16: address, and strides of images,
# rows and columns in bytes. source_*: rows and columns of x; rows, width: those of y. w: weights as
# [tap row][tap column][turn][channel]. along: whether blocks follow each other along a row,
# otherwise down a column.
FIELDS = (
    "x xn xh xw y yn yh yw w images chunk channels source_h source_w rows width strips pad along"
)


class Unit(NamedTuple):
    """A block of columns `strip`, the number of a unit of rows, and images [first, last)."""

    strip: Whole
    row: Whole
    first: Whole
    last: Whole


class Units:
    """All units of a call, in an order that reads memory forwards."""

    def __init__(self, c: Code, a: Any, together: int = 1) -> None:
        self._c = c
        self._a = a
        self._rows = up(a.rows, together)
        self.count = up(a.images, a.chunk) * self._rows * a.strips

    def loop(self, first: Whole, last: Whole) -> Iterator[Unit]:
        """Yield the units [first, last)."""
        a = self._a
        each = self._rows * a.strips
        along = a.along.equals(1)
        for number in self._c.loop(first, last):
            rest = number % each
            strip = along.pick(rest % a.strips, rest // self._rows)
            row = along.pick(rest // a.strips, rest % self._rows)
            image = number // each * a.chunk
            yield Unit(strip, row, image, (image + a.chunk).least(a.images))


def into(c: Code, name: str, offset: Whole) -> Whole:
    """The bytes of array `name` before a number that lies `offset` bytes into an array of
    float32."""
    return offset.halved() if name in c.halves else offset


def multiply_add(x: Vec, y: Vec, z: Vec, c: Code) -> Vec:
    """x * y + z, rounded once. Never reordered, so that the bits do not depend on the block."""
    return Vec(c.b, c.v.fma(x.value, y.value, z.value))


def inside(c: Code, at: Whole, size: Whole) -> Choice:
    """Whether a row or column lies in the image."""
    return (c.whole(-1) < at) & (at < size)


class Columns:
    """The columns of the source that a block reads, and which of them are padding."""

    def __init__(self, c: Code, a: Any, reads: Reads, first: Whole) -> None:
        self._c = c
        self._step = a.xw
        self.first = first + reads.start
        self._lanes = {
            at: inside(c, self.first + at, a.source_w).pick(c.lanes, 0) for at in reads.padding
        }

    def load(self, line: Whole, at: int, mask: Mask) -> Vec:
        """A vector of channels in column `at` of the row at `line`; 0 in the padding."""
        lanes = self._lanes.get(at)
        if lanes is not None:
            only = self._c.v.mask(lanes.value)
            mask = only if mask is None else self._c.b.and_(only, mask)
        return self._c.read("x", line + self._step * at, self._c.whole(0), mask)


def turned(c: Code, value: Vec, each: int, turn: int) -> Vec:
    """The channels of each group moved down by `turn` places, the first ones to the end."""
    if turn == 0:
        return value
    places = [lane - lane % each + (lane + turn) % each for lane in range(c.lanes)]
    picks = ir.Constant(ir.VectorType(I32, c.lanes), places)
    return Vec(c.b, c.b.shuffle_vector(value.value, value.value, picks))


def ahead(c: Code, at: Whole, step: Whole, columns: int) -> None:
    """Ask for a vector of each of these columns: AMD's processors see too few of so many streams,
    and too late. Intel's took 0.85 to 1.05 of the time without, and most of the shapes less than 1
    (measured once, 2026-11-29)."""
    for column in range(columns if host().cpu.startswith("znver") else 0):
        fetch(c.b, (at + step * column).value, to_write=False)


def add_products(
    c: Code,
    reads: Reads,
    near: Columns,
    line: Whole,
    rows: Sequence[tuple[list[Variable], Whole]],
    by_turn: Whole,
    mask: Mask,
) -> None:
    """Add the products with the row of the source at `line` to the sums of one or two rows of the
    block: `rows` has the sums, and the address of the row of weights, of each."""
    sums = [[total.get() for total in totals] for totals, _ in rows]
    for turn in range(reads.each):
        weights = [
            {tap: c.load(w + by_turn * (tap * reads.each + turn), mask) for tap in reads.taps}
            for _, w in rows
        ]
        for at in reads.columns:
            value = turned(c, near.load(line, at, mask), reads.each, turn)
            for product in reads.products:
                if product.source == at:
                    for w, now in zip(weights, sums, strict=True):
                        now[product.column] = multiply_add(
                            value, w[product.tap], now[product.column], c
                        )
    for (totals, _), now in zip(rows, sums, strict=True):
        for total, value in zip(totals, now, strict=True):
            total.set(value)
