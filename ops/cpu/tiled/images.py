"""The kernel that makes images in bfloat16: the outputs of a forward pass, or gradients by images.

A unit of work is some images and some rows of results, of one group. The part of x that a unit
reads is rounded into a copy of the thread's own: [row][column][image][channel], with zeros for the
padding, and with channels up to whole chunks. With steps the rows and columns of one remainder lie
together, so that neighbouring results read neighbouring pixels with each tap, and any 32 of them
are the rows of a block.
"""

from __future__ import annotations

from typing import Any

from ops.cpu.codegen.amx import DEPTH
from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Whole
from ops.cpu.gemm.calls import Arguments, either, entry, mover
from ops.cpu.tiled.block import BLOCK_BYTES, PITCH, SIDE
from ops.cpu.tiled.vectors import LINE, store_narrowed, store_zeros

# x, y: address, strides in bytes. rows_of: for each line of the copy its row of x, from the first
# row of the unit. columns_of: for each column of the copy the offset of its column of x, or -1
# outside x. A pixel of the copy takes `pixel` bytes with its images, which are `runs` runs of `run`
# numbers of x, run_step bytes apart. rows: offsets of the results of a line (of a unit if all lines
# are one run, `merged`) from its first result. table: where the chunks of a block begin (`block`).
# w: panels of 32 columns, panel_bytes each; `parts` parts of part_panels panels share a copy.
IMAGES = layout(
    "x xn xh x_group height step_h y yn yh y_group high outputs "
    "w w_group bias groups images units_n block_n units_h block_h "
    "rows_of line_count line columns_of column_count pixel runs run run_step row_bytes "
    "merged width rows table chunks panels panel_bytes parts part_panels "
    "scratch scratch_each begin sums end",
    "floor",
)


@generated(IMAGES)
def tiled_images(code: Code) -> None:
    """y = max(x * w + bias, floor). Threads share the units, and the parts of their panels."""
    a = Arguments(code)
    mover(code, a.begin)
    place = a.scratch + code.number * a.scratch_each
    copy = place + BLOCK_BYTES
    units = a.groups * a.units_n * a.units_h
    copied = code.variable(code.whole(-1))
    for item in code.loop(*code.share(units * a.parts)):
        unit = item // a.parts
        p = unit % a.units_h * a.block_h
        rest = unit // a.units_h
        n = rest % a.units_n * a.block_n
        g = rest // a.units_n
        with code.when(copied.get() < unit):
            _copy(code, a, copy, a.x + g * a.x_group + n * a.xn, p)
        copied.set(unit)
        y = a.y + g * a.y_group + n * a.yn + p * a.yh
        _multiply(code, a, (place, copy, y), (g, item % a.parts), (a.high - p).least(a.block_h))
    mover(code, a.end)
    code.b.fence("seq_cst")  # other threads see writes past the caches only after a fence


def _copy(code: Code, a: Any, copy: Whole, source: Whole, p: Whole) -> None:
    """Round the part of x that the unit of rows p, p + 1, ... reads."""
    for i in code.loop(0, a.line_count):
        row = p * a.step_h + entry(code, a.rows_of, i)
        to = copy + i * a.line
        with either(code, (row < a.height) & (code.whole(-1) < row)) as (inside, outside):
            with inside:
                for j in code.loop(0, a.column_count):
                    column = entry(code, a.columns_of, j)
                    there = to + j * a.pixel
                    with either(code, column < 0) as (padding, pixel):
                        with padding:
                            _clear(code, there, a.pixel)
                        with pixel:
                            _narrow(code, a, source + row * a.xh + column, there)
            with outside:
                _clear(code, to, a.line)


def _clear(code: Code, at: Whole, size: Whole) -> None:
    for offset in code.loop(0, size, LINE):
        store_zeros(code, at + offset)


def _narrow(code: Code, a: Any, source: Whole, to: Whole) -> None:
    """Round the images of a pixel. Channels past the last are zeros."""
    whole = a.run // DEPTH * DEPTH
    rest = a.run - whole
    masks = [code.v.mask((rest - at).value) for at in (0, code.lanes)]
    for r in code.loop(0, a.runs):
        here = source + r * a.run_step
        there = to + r * a.row_bytes
        for k in code.loop(0, whole, DEPTH):
            low, high = (code.load(here + k * 4 + at) for at in (0, LINE))
            store_narrowed(code, low, high, there + k * 2)
        with code.when(code.whole(0) < rest):
            end = here + whole * 4
            low, high = (
                code.load(end + at, mask) for at, mask in zip((0, LINE), masks, strict=True)
            )
            store_narrowed(code, low, high, there + whole * 2)


def _multiply(
    code: Code, a: Any, places: tuple[Whole, Whole, Whole], part: tuple[Whole, Whole], high: Whole
) -> None:
    """Compute `high` lines of results, with one part of the panels."""
    (place, copy, y), (g, member) = places, part
    first = member * a.part_panels
    last = (first + a.part_panels).least(a.panels)
    lines = a.merged.equals(1).pick(1, high)
    width = a.merged.equals(1).pick(high * a.width, a.width)
    for i in code.loop(0, lines):
        for m in code.loop(0, width, SIDE):
            rows = (width - m).least(SIDE)
            A = copy + i * a.line + m * a.row_bytes
            for panel in code.loop(first, last):
                columns = (a.outputs - panel * SIDE).least(SIDE)
                B = a.w + g * a.w_group + panel * a.panel_bytes
                mover(
                    code, a.sums, A, a.row_bytes, B, PITCH, a.table, a.chunks, rows, columns, place
                )
                at = g * a.outputs + panel * SIDE
                _deliver(code, a, place, (y + i * a.yh + panel * PITCH, m), at, (rows, columns))


def _deliver(
    code: Code,
    a: Any,
    place: Whole,
    target: tuple[Whole, Whole],
    output: Whole,
    sizes: tuple[Whole, Whole],
) -> None:
    """Write the sums of a block as results, with bias and floor. The results start at `output`, a
    number of an output of all groups."""
    (y, m), (rows, columns) = target, sizes
    masks = [code.v.mask((columns - at).value) for at in (0, code.lanes)]
    none = a.bias.equals(0)
    bias = [
        code.load(
            none.pick(place, a.bias + (output + at) * 4),
            code.v.mask((none.pick(0, columns) - at).value),
        )
        for at in (0, code.lanes)
    ]
    for r in code.loop(0, rows):
        to = y + entry(code, a.rows, m + r)
        sums = place + r * PITCH
        results = [code.load(sums + at) for at in (0, LINE)]
        for at, result, start, mask in zip((0, LINE), results, bias, masks, strict=True):
            found = _at_least(code, result.plus(start), a.floor)
            if code.past:  # whole vectors
                with code.when(code.whole(at // 4) < columns):
                    code.deliver(found, to + at)
            else:
                code.store(found, to + at, mask)


def _at_least(code: Code, result: Any, floor: Any) -> Any:
    return type(result)(code.b, code.v.at_least(result.value, code.v.splat(floor)))
