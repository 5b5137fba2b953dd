"""The kernels that make gradients of weights by products in bfloat16: sums over pixels and images
that are stored in float32 or in bfloat16.

The rows of a block are outputs and its columns channels. Both operands of a unit of work, some
images and some rows of dy, are rounded into copies of the thread's own. dy is turned: 32 neighbours
of a row are 32 pixels of one output. x lies in pairs of pixels, with zeros for the padding, so that
a tap is a shift by whole images. Each copy prefetches the next column of x, or the next 32 pixels
of dy. The columns lie far apart, so the processor does not foresee them.

The units are summed in parts, whose number depends only on the shape, and the parts are added up in
their order. So the bits do not depend on the number of threads, and no sum becomes long.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

from ops.cpu.codegen.amx import DEPTH
from ops.cpu.codegen.bfloat16 import LANES
from ops.cpu.codegen.code import Code, Generated, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.stored import Stored
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.gemm.calls import Arguments, either, entry, fetch, mover
from ops.cpu.gemm.permute import turned
from ops.cpu.tiled.block import BLOCK_BYTES, PITCH, SIDE
from ops.cpu.tiled.vectors import LINE, WORDS, Source, store_whole, store_zeros

# x, y (dy): address, strides in bytes. rows_of: for each line of the copy of x its row, from the
# first row of the unit. pixels_of: for each pixel of a line its offset, or -1 where there are
# zeros; outputs_of: the same for a line of dy. Both tables end with zeros, to be prefetched.
# column: pixels of x from a column to the next. pair: bytes of a pair of pixels, line: of a line.
# chunk: bytes of 32 pixels of dy, chunks: how many a line has. table: where the chunks of a unit
# begin; taps_of: how many bytes a tap shifts x. w: parts of the sums, w_part bytes each. They are
# blocks, [group][part][32 outputs][tap][32 channels], with w_panel bytes for 32 outputs and w_tap
# for a tap. If `direct`, w is dw, of one tap, with rows of w_row bytes. Threads share parts x
# shares of c_share channels.
WEIGHT_FIELDS = (
    "x xn xh x_group height step_h y yn yh y_group high outputs channels groups "
    "units_n block_n units_h block_h rows_of line_count line pixels_of pixel_count pair "
    "outputs_of column chunks chunk table taps_of taps w w_part w_panel w_tap w_row direct "
    "parts c_shares c_share "
    "scratch scratch_each x_bytes begin sums end"
)
WEIGHTS = layout(WEIGHT_FIELDS)
TOTAL = layout("w w_part w_panel w_tap parts taps outputs channels groups dw transpose")


@functools.cache
def weights_kernel(x: Stored, dy: Stored) -> Generated:
    """The parts of dw, for x and dy that are stored so."""
    name = f"tiled_weights_{x.size}_{dy.size}"
    return Generated(name, WEIGHTS, lambda code: WeightsCode(code, x, dy).write())


class WeightsCode:
    """The kernel for images that are stored in these types."""

    def __init__(self, code: Code, x: Stored, dy: Stored) -> None:
        self.code = code
        self.a = Arguments(code)
        self.x = Source(code, x)
        self.dy = Source(code, dy)

    def write(self) -> None:
        """Write the kernel."""
        code, a = self.code, self.a
        mover(code, a.begin)
        place = a.scratch + code.number * a.scratch_each
        pixels = place + BLOCK_BYTES
        gradients = pixels + a.x_bytes
        units = a.units_n * a.units_h
        copied = code.variable(code.whole(-1))  # the unit whose gradients are there
        for item in code.loop(*code.share(a.groups * a.parts * a.c_shares)):
            c = item % a.c_shares * a.c_share
            part = item // a.c_shares % a.parts
            g = item // a.c_shares // a.parts
            channels = (a.channels - c).least(a.c_share)
            first = units * part // a.parts
            by_channel = a.direct.equals(1).pick(4, BLOCK_BYTES // SIDE)
            to = a.w + (g * a.parts + part) * a.w_part + c * by_channel
            for unit in code.loop(first, units * (part + 1) // a.parts):
                p = unit % a.units_h * a.block_h
                n = unit // a.units_h * a.block_n
                x = a.x + g * a.x_group + n * a.xn + c * self.x.size
                self._copy_pixels((x, pixels), p, channels)
                y = a.y + g * a.y_group + n * a.yn + p * a.yh
                rows = (a.high - p).least(a.block_h)
                this = g * units + unit
                with code.when((copied.get() < this) | (this < copied.get())):
                    self._copy_gradients((y, gradients), rows)
                copied.set(this)
                more = unit.equals(first).pick(0, 1)
                sizes = rows * a.chunks, channels
                with either(code, a.direct.equals(1)) as (directly, by_blocks):
                    with directly:
                        self._add_up((place, gradients, pixels, to), sizes, more)
                    with by_blocks:
                        self._multiply((gradients, pixels, to), sizes, more)
        mover(code, a.end)

    def _copy_pixels(self, places: tuple[Whole, Whole], p: Whole, channels: Whole) -> None:
        """Copy x as pairs of pixels."""
        code, a = self.code, self.a
        source, copy = places
        for i in code.loop(0, a.line_count):
            row = p * a.step_h + entry(code, a.rows_of, i)
            to = copy + i * a.line
            with either(code, (row < a.height) & (code.whole(-1) < row)) as (inside, outside):
                with inside:
                    here = source + row * a.xh
                    for m in code.loop(0, a.pixel_count, 2):
                        offsets = _pair_of(code, a.pixels_of, m)
                        ahead = _pair_of(code, a.pixels_of, m + a.column)
                        there = to + m // 2 * a.pair
                        for c in code.loop(0, channels, LANES):
                            found = self.x.pairs(
                                *_places(here + c * self.x.size, offsets, channels - c)
                            )
                            store_whole(code, found, there + c * 4)
                            for at in ahead:
                                next_at = here + at + c * self.x.size
                                fetch(code, next_at, to_write=False, nearest=True)
                with outside:
                    for at in code.loop(0, a.line, LINE):
                        store_zeros(code, to + at)

    def _copy_gradients(self, places: tuple[Whole, Whole], rows: Whole) -> None:
        """Copy dy, and turn squares of 16 outputs and 16 pairs of pixels."""
        code, a = self.code, self.a
        source, copy = places
        for p in code.loop(0, rows):
            for q in code.loop(0, a.chunks):
                to = copy + (p * a.chunks + q) * a.chunk
                for k in code.loop(0, a.outputs, LANES):
                    here = source + p * a.yh + k * self.dy.size
                    square = []
                    for r in range(0, DEPTH, 2):
                        offsets = _pair_of(code, a.outputs_of, q * DEPTH + r)
                        ahead = _pair_of(code, a.outputs_of, (q + 1) * DEPTH + r)
                        for at in ahead:
                            fetch(code, here + at, to_write=False, nearest=True)
                        found = self.dy.pairs(*_places(here, offsets, a.outputs - k))
                        square.append(code.b.bitcast(found.value, code.v.type))
                    for r, row in enumerate(turned(code.b, square, LANES)):
                        whole = Vec(code.b, code.b.bitcast(row, WORDS))
                        store_whole(code, whole, to + (k + r) * LINE)

    def _multiply(
        self, places: tuple[Whole, Whole, Whole], sizes: tuple[Whole, Whole], more: Whole
    ) -> None:
        """Continue the sums of a part with those of a unit, or begin them."""
        code, a = self.code, self.a
        (gradients, pixels, to), (chunks, channels) = places, sizes
        for k in code.loop(0, a.outputs, SIDE):
            rows = (a.outputs - k).least(SIDE)
            A = gradients + k * LINE
            for tap in code.loop(0, a.taps):
                B = pixels + entry(code, a.taps_of, tap)
                total = to + k // SIDE * a.w_panel + tap * a.w_tap
                for c in code.loop(0, channels, SIDE):
                    columns = (channels - c).least(SIDE)
                    into = total + c * (BLOCK_BYTES // SIDE)
                    of = A, LINE, B + c * 4, a.pair, a.table, chunks, rows, columns, into, more
                    mover(code, a.sums, *of)

    def _add_up(
        self, places: tuple[Whole, Whole, Whole, Whole], sizes: tuple[Whole, Whole], more: Whole
    ) -> None:
        """As `_multiply`, where dw itself has the sums, of one tap."""
        code, a = self.code, self.a
        (place, gradients, pixels, to), (chunks, channels) = places, sizes
        B = pixels + entry(code, a.taps_of, code.whole(0))
        for k in code.loop(0, a.outputs, SIDE):
            rows = (a.outputs - k).least(SIDE)
            A = gradients + k * LINE
            for c in code.loop(0, channels, SIDE):
                columns = (channels - c).least(SIDE)
                of = A, LINE, B + c * 4, a.pair, a.table, chunks, rows, columns, place, 0
                mover(code, a.sums, *of)
                self._add(place, to + k * a.w_row + c * 4, (rows, columns), more)

    def _add(self, place: Whole, to: Whole, sizes: tuple[Whole, Whole], more: Whole) -> None:
        code, a = self.code, self.a
        rows, columns = sizes
        for at in (0, LANES):
            mask = code.v.mask((columns - at).value)
            old = code.v.mask((more.equals(1).pick(columns, 0) - at).value)
            for r in code.loop(0, rows):
                here = to + r * a.w_row + at * 4
                total = code.load(here, old).plus(code.load(place + r * PITCH + at * 4))
                code.store(total, here, mask)


Both: TypeAlias = tuple[Whole, Whole]


def _pair_of(code: Code, table: Whole, index: Whole) -> Both:
    """The offsets of two neighbouring pixels."""
    return entry(code, table, index), entry(code, table, index + 1)


def _places(here: Whole, offsets: Both, count: Whole) -> tuple[Both, Both]:
    """The places of a pair of pixels, and how many numbers each has: none if its offset is
    negative."""
    (low, high), counts = offsets, [(offset < 0).pick(0, count) for offset in offsets]
    return (here + low, here + high), (counts[0], counts[1])


@generated(TOTAL)
def tiled_total(code: Code) -> None:
    """dw in Caffe's order: the parts, added in their order. Threads share the outputs."""
    a = Arguments(code)
    for item in code.loop(*code.share(a.groups * a.outputs)):
        g = item // a.outputs
        output = item % a.outputs
        row = a.w + g * a.parts * a.w_part + output // SIDE * a.w_panel + output % SIDE * PITCH
        for c in code.loop(0, a.channels, LANES):
            count = (a.channels - c).least(LANES)
            mask = code.v.mask(count.value)
            first = row + c // SIDE * BLOCK_BYTES + c % SIDE * 4
            to = a.dw + (item * a.channels + c) * a.taps * 4
            alone = a.taps.equals(1)
            # sums of several taps are added up where they lie
            changed = (alone | (code.whole(1) < a.parts)).pick(a.taps, 0)
            for tap in code.loop(0, changed):
                here = first + tap * a.w_tap
                total = code.variable(code.load(here, mask))
                for part in code.loop(1, a.parts):
                    total.set(total.get().plus(code.load(here + part * a.w_part, mask)))
                code.store(total.get(), alone.pick(to, here), mask)
            for tap in code.loop(0, alone.pick(0, a.taps), LANES):
                some = (a.taps - tap).least(LANES)
                here = first + tap * a.w_tap
                there = to + tap * 4
                mover(code, a.transpose, here, a.w_tap, some, count, there, a.taps * 4, some)
