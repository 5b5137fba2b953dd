"""Kernels of depthwise convolution that make images: outputs, and gradients by images.

For a vector of channels the sums of a block stay in registers while the rows of the kernel pass,
and each number of the source meets all columns of the block that read it. The order of a sum's
products depends only on the windows. So a result has the same bits in any block, with any number of
threads, and in any batch.
"""

from __future__ import annotations

import functools

from ops.cpu.codegen.code import Code, Generated, Mask
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Variable, Vec, Whole
from ops.cpu.depthwise.blocks import Block
from ops.cpu.depthwise.sweep import (
    FIELDS,
    Columns,
    Unit,
    Units,
    add_products,
    ahead,
    inside,
    into,
)
from ops.cpu.gemm.calls import Arguments, up

# after the weights, w has one more row of channels: the number from which the sums start
IMAGES = layout(FIELDS, "floor")


@functools.cache
def forward_kernel(block: Block, together: int) -> Generated:
    """y = max(x * w + b, floor). `together`: rows of y that are made at once, from the rows of x
    that they share."""
    return Generated(
        f"depthwise_forward_{block}_{together}",
        IMAGES,
        lambda c: _Forward(c, block).write(together),
    )


@functools.cache
def backward_kernel(block: Block) -> Generated:
    """The gradient by images y from the gradient by outputs x, for any stride, without dilation."""
    return Generated(f"depthwise_backward_{block}", IMAGES, lambda c: _Backward(c, block).write())


class _Images:
    """The parts that both kernels share."""

    def __init__(self, c: Code, block: Block) -> None:
        self.c = c
        self.block = block
        self.a = Arguments(c)
        self.floor = c.floor
        self.by_turn = self.a.channels * 4
        self.by_row = self.by_turn * (block.kernel[1] * block.each)
        self.start = self.a.w + self.by_row * block.kernel[0]

    def sums(self, rows: int, at: Whole, mask: Mask) -> list[list[Variable]]:
        """A variable for each sum of a block's rows."""
        first = self.c.load(self.start + at, mask)
        return [[self.c.variable(first) for _ in range(self.block.columns)] for _ in range(rows)]

    def above(self, value: Vec) -> Vec:
        """The value, or the floor if the value is below it. A NaN stays."""
        found: Vec = (value < self.floor).pick(self.floor, value)
        return found


class _Forward(_Images):
    def write(self, together: int) -> None:
        c, a = self.c, self.a
        units = Units(c, a, together)
        for unit in units.loop(*c.share(units.count)):
            row = unit.row * together
            if together == 1:
                self._rows(unit, row, 1)
                continue
            with c.when(row + 1 < a.rows):
                self._rows(unit, row, 2)
            with c.when((row + 1).equals(a.rows)):
                self._rows(unit, row, 1)

    def _rows(self, unit: Unit, row: Whole, rows: int) -> None:
        """Make `rows` rows of a block."""
        c, a, block = self.c, self.a, self.block
        reads = block.forward()
        first = (unit.strip * block.columns).least(a.width - block.columns)
        near = Columns(c, a, reads, first * block.stride[1])
        top = row * block.stride[0] - a.pad
        reach = block.reach + (rows - 1) * block.stride[0]
        source = a.x + top * a.xh + near.first * a.xw
        target = a.y + row * a.yh + first * a.yw
        for n in c.loop(unit.first, unit.last):
            for offset, (mask,) in c.columns(a.channels, 1):
                x = source + n * a.xn + into(c, "x", offset)
                for next_row in range(reach, reach + rows * block.stride[0]):
                    ahead(c, x + a.xh * next_row, a.xw, block.columns * block.stride[1])
                sums = self.sums(rows, offset, mask)
                for m in range(reach):
                    taps = [
                        (sums[e], a.w + self.by_row * i + offset)
                        for e in range(rows)
                        for i in range(block.kernel[0])
                        if e * block.stride[0] + i * block.dilation[0] == m
                    ]
                    if taps:
                        with c.when(inside(c, top + m, a.source_h)):
                            add_products(c, reads, near, x + a.xh * m, taps, self.by_turn, mask)
                for e, totals in enumerate(sums):
                    for r, total in enumerate(totals):
                        y = target + n * a.yn + a.yh * e + a.yw * r
                        c.deliver_to("y", self.above(total.get()), y, offset, mask)


class _Backward(_Images):
    """A row of the images has its own rows of the kernel: those whose number has the row's
    remainder by the stride."""

    def write(self) -> None:
        c, a, block = self.c, self.a, self.block
        step = block.stride[0]
        reads = block.backward()
        units = Units(c, a)
        for unit in units.loop(*c.share(units.count)):
            last = up(a.width - block.columns, block.stride[1]) * block.stride[1]
            first = (unit.strip * block.columns).least(last)
            near = Columns(c, a, reads, first // block.stride[1])
            tap = (unit.row + a.pad) % step
            lowest = (unit.row + a.pad) // step
            skipped = (lowest - a.source_h + 1).most(0)
            count = (lowest + 1).least((c.whole(block.kernel[0] + step - 1) - tap) // step)
            weights = a.w + (tap + skipped * step) * self.by_row
            source = a.x + (lowest - skipped) * a.xh + near.first * a.xw
            target = a.y + unit.row * a.yh + first * a.yw
            for n in c.loop(unit.first, unit.last):
                for offset, (mask,) in c.columns(a.channels, 1):
                    x = source + n * a.xn + into(c, "x", offset)
                    ahead(c, x + a.xh, a.xw, block.columns // block.stride[1])
                    sums = self.sums(1, offset, mask)
                    for t in c.loop(0, count - skipped):
                        w = weights + self.by_row * step * t + offset
                        add_products(
                            c, reads, near, x - a.xh * t, [(sums[0], w)], self.by_turn, mask
                        )
                    for r, total in enumerate(sums[0]):
                        to = "y", self.above(total.get()), target + n * a.yn + a.yw * r, offset
                        if r <= block.columns - block.stride[1]:
                            c.deliver_to(*to, mask)
                            continue
                        with c.when(first + r < a.width):  # a block may end beyond the row
                            c.deliver_to(*to, mask)
