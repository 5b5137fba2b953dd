"""The kernels that make images by products in bfloat16: the outputs of a forward pass, or gradients
by images. Both images are stored in float32 or in bfloat16.

A unit of work is some images and some rows of results, of one group. The part of x that a unit
reads is rounded into a copy of the thread's own: [row][column][image][channel], with zeros for the
padding, and with channels up to whole chunks. With steps the rows and columns of one remainder lie
together, so that neighbouring results read neighbouring pixels with each tap, and any 32 of them
are the rows of a block. Images in bfloat16 that lie so already are read in place.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

from ops.cpu.codegen.amx import DEPTH
from ops.cpu.codegen.code import Code, Generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.stored import Stored
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.gemm.calls import Arguments, either, entry, fetch, mover
from ops.cpu.tiled.block import BLOCK_BYTES, PITCH, SIDE
from ops.cpu.tiled.vectors import (
    LINE,
    Source,
    rounded,
    store_numbers,
    store_whole,
    store_zeros,
)

# x, y: address, strides in bytes. rows_of: for each line of the copy its row of x, from the first
# row of the unit. columns_of: for each column of the copy the offset of its column of x, or -1
# outside x, and a zero at the end. A pixel of the copy takes `pixel` bytes with its images, which
# are `runs` runs of `run` numbers of x, run_step bytes apart. in_place: x itself has the layout of
# the copy. rows: offsets of the results of a line (of a unit if all lines are one run, `merged`)
# from its first result.
# table: where the chunks of a block begin (`block`). groups_of: the number of the first chunk of
# each of k_groups groups, and of all chunks. w: panels of 32 columns, panel_bytes each; `parts`
# parts of part_panels panels share a copy. run_blocks: blocks whose sums are made together, of
# `together` panels.
IMAGE_FIELDS = (
    "x xn xh x_group height step_h y yn yh y_group high outputs "
    "w w_group bias groups images units_n block_n units_h block_h "
    "rows_of line_count line columns_of column_count pixel runs run run_step row_bytes "
    "in_place merged width rows table groups_of k_groups panels panel_bytes parts part_panels "
    "run_blocks together sums_bytes scratch scratch_each begin sums end"
)
IMAGES = layout(IMAGE_FIELDS, "floor")
# Panels whose sums are delivered together: neighbouring lines of memory are written at once. A pass
# with 256 outputs took 0.84 of its time (measured once, 2026-11-30).
TOGETHER = 8
Both: TypeAlias = tuple[Whole, Whole]


@functools.cache
def images_kernel(read: Stored, written: Stored) -> Generated:
    """y = max(x * w + bias, floor), for x and y that are stored so. Threads share the units, and
    the parts of their panels."""
    name = f"tiled_images_{read.size}_{written.size}"
    return Generated(name, IMAGES, lambda code: ImagesCode(code, read, written).write())


class ImagesCode:
    """The kernel for images that are stored in these types."""

    def __init__(self, code: Code, read: Stored, written: Stored) -> None:
        self.code = code
        self.a = Arguments(code)
        self.x = Source(code, read)
        self.y = written

    def write(self) -> None:
        """Write the kernel."""
        code, a = self.code, self.a
        mover(code, a.begin)
        place = a.scratch + code.number * a.scratch_each
        copy = place + a.sums_bytes
        units = a.groups * a.units_n * a.units_h
        copied = code.variable(code.whole(-1))
        for item in code.loop(*code.share(units * a.parts)):
            unit = item // a.parts
            p = unit % a.units_h * a.block_h
            rest = unit // a.units_h
            n = rest % a.units_n * a.block_n
            g = rest // a.units_n
            x = a.x + g * a.x_group + n * a.xn
            with code.when((copied.get() < unit) & a.in_place.equals(0)):
                self._copy(copy, x, p)
            copied.set(unit)
            read = a.in_place.equals(1).pick(x + p * a.step_h * a.xh, copy)
            y = a.y + g * a.y_group + n * a.yn + p * a.yh
            high = (a.high - p).least(a.block_h)
            self._multiply((place, read, y), (g, item % a.parts), (p, high))
        mover(code, a.end)
        code.b.fence("seq_cst")  # other threads see writes past the caches only after a fence

    def _copy(self, copy: Whole, source: Whole, p: Whole) -> None:
        """Copy the part of x that the unit of rows p, p + 1, ... reads."""
        code, a = self.code, self.a
        for i in code.loop(0, a.line_count):
            row = p * a.step_h + entry(code, a.rows_of, i)
            to = copy + i * a.line
            with either(code, (row < a.height) & (code.whole(-1) < row)) as (inside, outside):
                with inside:
                    for j in code.loop(0, a.column_count):
                        column, following = (entry(code, a.columns_of, j + at) for at in (0, 1))
                        there = to + j * a.pixel
                        with either(code, column < 0) as (padding, pixel):
                            with padding:
                                _clear(code, there, a.pixel)
                            with pixel:
                                here = source + row * a.xh
                                self._copy_pixel(here + column, here + following, there)
                with outside:
                    _clear(code, to, a.line)

    def _copy_pixel(self, source: Whole, following: Whole, to: Whole) -> None:
        """Copy the images of a pixel, rounded. Channels past the last are zeros. The `following`
        pixel is prefetched."""
        code, a, x = self.code, self.a, self.x
        whole = a.run // DEPTH * DEPTH
        rest = a.run - whole
        for r in code.loop(0, a.runs):
            here = source + r * a.run_step
            there = to + r * a.row_bytes
            ahead = following + r * a.run_step
            for k in code.loop(0, whole, DEPTH):
                fetch(code, ahead + k * x.size, to_write=False, nearest=True)
                store_whole(code, x.numbers(here + k * x.size), there + k * 2)
            with code.when(code.whole(0) < rest):
                fetch(code, ahead + whole * x.size, to_write=False, nearest=True)
                store_whole(code, x.numbers(here + whole * x.size, rest), there + whole * 2)

    def _multiply(self, places: tuple[Whole, Whole, Whole], part: Both, some: Both) -> None:
        """Compute `high` lines of results from line p on, with one part of the panels.

        The chunks are multiplied in groups. The weights of a group stay in the first-level cache
        for a run of blocks, so that only images are read from the second.
        """
        code, a = self.code, self.a
        (place, read, y), (g, member), (p, high) = places, part, some
        first = member * a.part_panels
        last = (first + a.part_panels).least(a.panels)
        lines = a.merged.equals(1).pick(1, high)
        width = a.merged.equals(1).pick(high * a.width, a.width)
        across = (width + (SIDE - 1)) // SIDE
        blocks = lines * across
        for number in code.loop(0, (blocks + a.run_blocks - 1) // a.run_blocks):
            start = number * a.run_blocks
            stop = (start + a.run_blocks).least(blocks)
            for panel in code.loop(first, last, TOGETHER):
                end = (panel + TOGETHER).least(last)
                for group in code.loop(0, a.k_groups):
                    for k in code.loop(panel, end):
                        columns = (a.outputs - k * SIDE).least(SIDE)
                        B = a.w + g * a.w_group + k * a.panel_bytes
                        for block in code.loop(start, stop):
                            i, m, rows = self._results_of(block, across, width)
                            A, table, groups_of = self._operand(read, (p, i), m)
                            low, high = (entry(code, groups_of, group + at) for at in (0, 1))
                            chunks = table + low * (2 * 8), high - low
                            of = A, a.row_bytes, B, PITCH, *chunks, rows, columns
                            sums = place + ((block - start) * a.together + k - panel) * BLOCK_BYTES
                            mover(code, a.sums, *of, sums, group)
                for block in code.loop(start, stop):
                    i, m, rows = self._results_of(block, across, width)
                    to = y + i * a.yh + panel * (SIDE * self.y.size)
                    output = g * a.outputs + panel * SIDE
                    sizes = end - panel, a.outputs - panel * SIDE
                    sums = place + (block - start) * a.together * BLOCK_BYTES
                    self._deliver((sums, to), (m, rows), output, sizes)

    def _results_of(self, block: Whole, across: Whole, width: Whole) -> tuple[Whole, Whole, Whole]:
        """The line of a block, its first result in the line, and the number of its results."""
        begin = block % across * SIDE
        # past the last pixel of x is no memory to read: the last block begins earlier
        m = self.a.in_place.equals(1).pick(begin.least(width - SIDE), begin)
        return block // across, m, (width - m).least(SIDE)

    def _operand(self, read: Whole, row: Both, m: Whole) -> tuple[Whole, Whole, Whole]:
        """Where the block begins whose first result is number m of line p + i, row = (p, i), the
        table of its chunks, and the first chunk of each group. `read`: the part of x that the unit
        reads, or its copy."""
        a = self.a
        return read + row[1] * a.line + m * a.row_bytes, a.table, a.groups_of

    def _deliver(self, places: Both, results: Both, output: Whole, sizes: Both) -> None:
        """Write the sums of some panels as results, with bias and floor. Their results start at
        `output`, a number of an output of all groups."""
        code, a = self.code, self.a
        (place, y), (m, many), (panels, columns) = places, results, sizes
        with either(code, a.bias.equals(0)) as (plain, biased):
            for branch, added in ((plain, False), (biased, True)):
                with branch:
                    for r in code.loop(0, many):
                        to = y + entry(code, a.rows, m + r)
                        for k in code.loop(0, panels):
                            rest = columns - k * SIDE
                            found = []
                            for at in (0, code.lanes):
                                total = code.load(place + k * BLOCK_BYTES + r * PITCH + at * 4)
                                if added:
                                    bias = a.bias + (output + k * SIDE + at) * 4
                                    mask = code.v.mask((rest - at).value)
                                    total = total.plus(code.load(bias, mask))
                                found.append(_at_least(code, total, a.floor))
                            self._write(found, to + k * (SIDE * self.y.size), rest)

    def _write(self, found: list[Vec], to: Whole, columns: Whole) -> None:
        """Write the first `columns` of 32 results."""
        code = self.code
        if self.y.size == 2:
            value = rounded(code, *found)
            if code.past:  # whole lines
                store_whole(code, value, to, past=True)
            else:
                store_numbers(code, value, to, columns)
            return
        for at, value in zip((0, LINE), found, strict=True):
            if code.past:  # whole vectors
                with code.when(code.whole(at // 4) < columns):
                    code.deliver(value, to + at)
            else:
                code.store(value, to + at, code.v.mask((columns - at // 4).value))


def _clear(code: Code, at: Whole, size: Whole) -> None:
    for offset in code.loop(0, size, LINE):
        store_zeros(code, at + offset)


def _at_least(code: Code, result: Vec, floor: Any) -> Vec:
    return Vec(code.b, code.v.at_least(result.value, code.v.splat(floor)))
