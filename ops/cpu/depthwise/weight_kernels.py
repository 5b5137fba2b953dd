"""Kernels of depthwise convolution that make gradients of weights.

The sums over a batch are made in parts, whose number depends only on the shape. Each part is a
table [tap row][tap column][turn][channel], and the tables are added up in their order. So the bits
do not depend on the number of threads, and no sum in float32 becomes long.
"""

from __future__ import annotations

import functools

from ops.cpu.codegen.code import Code, Generated, Mask, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.depthwise.blocks import Block
from ops.cpu.depthwise.sweep import (
    FIELDS,
    Columns,
    Unit,
    Units,
    ahead,
    inside,
    into,
    multiply_add,
    turned,
)
from ops.cpu.gemm.calls import Arguments, up

# y is dy. w: the tables, part_bytes apart. Threads share parts x groups of block_c channels.
WEIGHTS = layout(f"{FIELDS} parts part_bytes block_c")
TOTAL = layout("w parts part_bytes total count")


@functools.cache
def weight_kernel(block: Block, whole: bool) -> Generated:
    """The tables of all parts. `whole`: blocks of columns do not overlap."""
    return Generated(
        f"depthwise_weights_{block}_{int(whole)}",
        WEIGHTS,
        lambda c: _Weights(c, block, whole).write(),
    )


@generated(TOTAL)
def depthwise_total(c: Code) -> None:
    """The sum of all tables, `count` numbers each, in their order."""
    a = Arguments(c)
    first, last = c.share(a.count, c.lanes)
    for offset, (mask,) in c.columns(last, 1, first):
        total = c.variable(c.load(a.w + offset, mask))
        for part in c.loop(1, a.parts):
            total.set(total.get().plus(c.load(a.w + part * a.part_bytes + offset, mask)))
        c.store(total.get(), a.total + offset, mask)


class _Weights:
    def __init__(self, c: Code, block: Block, whole: bool) -> None:
        self.c = c
        self.block = block
        self.whole = whole
        self.a = Arguments(c)
        self.reads = block.forward()
        self.by_turn = self.a.channels * 4

    def write(self) -> None:
        c, a = self.c, self.a
        rows = self.block.kernel[0] * self.block.kernel[1] * self.block.each
        groups = up(a.channels, a.block_c)
        units = Units(c, a)
        for share in c.loop(*c.share(a.parts * groups)):
            part = share // groups
            low = share % groups * a.block_c
            high = (low + a.block_c).least(a.channels)
            table = a.w + part * a.part_bytes
            for row in c.loop(0, c.whole(rows)):
                for offset, (mask,) in c.columns(high, 1, low):
                    c.store(c.constant(0), table + row * self.by_turn + offset, mask)
            first, last = (units.count * at // a.parts for at in (part, part + 1))
            for unit in units.loop(first, last):
                self._row(unit, table, low, high)

    def _row(self, unit: Unit, table: Whole, low: Whole, high: Whole) -> None:
        """Add the products of a block of dy to a table."""
        c, a, block = self.c, self.a, self.block
        begin = unit.strip * block.columns
        first = begin.least(a.width - block.columns)
        near = Columns(c, a, self.reads, first * block.stride[1])
        top = unit.row * block.stride[0] - a.pad
        source = a.x + top * a.xh + near.first * a.xw
        gradient = a.y + unit.row * a.yh + first * a.yw
        for n in c.loop(unit.first, unit.last):
            for offset, (mask,) in c.columns(high, 1, low):
                x = source + n * a.xn + into(c, "x", offset)
                y = gradient + n * a.yn + into(c, "y", offset)
                for row in range(block.stride[0]):
                    next_row = x + a.xh * (block.reach + row)
                    ahead(c, next_row, a.xw, block.columns * block.stride[1])
                ahead(c, y + a.yh, a.yw, block.columns)
                dy = [self._dy(y, r, begin - first, mask) for r in range(block.columns)]
                for i in range(block.kernel[0]):
                    row = i * block.dilation[0]
                    with c.when(inside(c, top + row, a.source_h)):
                        w = table + self.by_turn * (i * block.kernel[1] * block.each) + offset
                        self._add(near, x + a.xh * row, dy, w, mask)

    def _dy(self, y: Whole, r: int, counted: Whole, mask: Mask) -> Vec:
        """Column r of dy; 0 if an earlier block has it."""
        c = self.c
        if not self.whole:
            only = c.v.mask((counted < r + 1).pick(c.lanes, 0).value)
            mask = only if mask is None else c.b.and_(only, mask)
        return c.read("y", y + self.a.yw * r, c.whole(0), mask)

    def _add(self, near: Columns, line: Whole, dy: list[Vec], w: Whole, mask: Mask) -> None:
        """Add the products with one row of x to one row of the table."""
        c, reads = self.c, self.reads
        for turn in range(reads.each):
            places = {tap: w + self.by_turn * (tap * reads.each + turn) for tap in reads.taps}
            sums = {tap: c.load(place, mask) for tap, place in places.items()}
            for at in reads.columns:
                value = turned(c, near.load(line, at, mask), reads.each, turn)
                for product in reads.products:
                    if product.source == at:
                        tap = product.tap
                        sums[tap] = multiply_add(value, dy[product.column], sums[tap], c)
            for tap, total in sums.items():
                c.store(total, places[tap], mask)
