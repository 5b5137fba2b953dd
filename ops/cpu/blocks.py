"""What the loops of direct convolution share: a block of work, its copy of x, and runs of tiles over it.

Both kinds of loops walk over blocks (group, images, rows, columns). For a block the part of x that it reads is copied,
with its padding as zeros, into a dense [row][image][column][channel] of the thread's own, so that one call of the
micro-kernel sums over all taps; where there is one tap, x may be read in place (`packed` 0). Output (p, q) reads x at
p * step + off + tap * hop. What never lives here: which sums are formed (`convolve`, `correlate`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from ops.cpu.ir_tools import F32
from ops.cpu.kernel import layout
from ops.cpu.loops import Code, Number, Variable, Whole
from ops.cpu.microkernel import MAX_ROWS
from ops.cpu.target import host

WORK = layout(
    "x xn xc xh xw y yn yh yw w scratch scratch_each images height width channels high wide groups x_group y_group "
    "w_group step_h step_w off_h off_w hop_h hop_w taps_h taps_w block_n block_h block_w block_c packed "
    "panels panel_count starts parts table rows zeros bias along channel_parts w_part",
    "floor",
)
LINE = 64  # bytes of a cache line
NONE = ir.Constant(F32, float("-inf"))  # the floor that lets every sum through


class Corner(NamedTuple):
    """Where a block starts: group, image, row, column."""

    g: Number
    n: Number
    p: Number
    q: Number


class Part(NamedTuple):
    """What a kernel works on: images, rows and columns of outputs from (p0, q0) on, channels from c0 on."""

    n: Number
    p: Number
    q: Number
    p0: Number
    q0: Number
    c: Number
    c0: Number


class View(NamedTuple):
    """Pixels in memory: address, strides of image, row and column."""

    at: Number
    n: Number
    h: Number
    w: Number


class Region(NamedTuple):
    """What a later block reads: n images x columns x rows of pieces of `size` bytes; `pieces` of them in all."""

    view: View
    n: Number
    columns: Number
    pieces: Number
    size: Number


class Wish(NamedTuple):
    """A region brought near bit by bit, one part at each of `ticks` ticks."""

    region: Region
    tick: Number
    ticks: Number


def units(code: Code, a: Any) -> Number:
    """Blocks of a group."""
    across = code.up(a.high, a.block_h) * code.up(a.wide, a.block_w)
    return code.up(a.images, a.block_n) * across


def corner(code: Code, a: Any, unit: Number) -> Corner:
    """Where the block of this number starts."""
    tall, broad, many = code.up(a.high, a.block_h), code.up(a.wide, a.block_w), code.up(a.images, a.block_n)
    rest = unit // broad // tall
    return Corner(rest // many, rest % many * a.block_n, unit // broad % tall * a.block_h, unit % broad * a.block_w)


def extent(count: Number, step: Number, taps: Number, hop: Number) -> Number:
    """Pixels along one axis that `count` outputs read."""
    return (count - 1) * step + (taps - 1) * hop + 1


def reached(code: Code, first: Number, hop: Number, taps: Number, size: Number) -> tuple[Number, Number]:
    """The taps [low, high) whose pixel first + tap * hop lies in [0, size)."""
    low = code.choose(first < 0, code.up(0 - first, hop), 0)
    high = code.choose(first < size, code.least((size - 1 - first) // hop + 1, taps), 0)
    return low, high


def copy_block(code: Code, a: Any, to: Number, x: Number, part: Part) -> tuple[View, Number]:
    """Copy what a block reads; x: its first image and channel. Returns the copy's first pixel and the bytes it takes.

    An image's row is an odd number of cache lines, so that images do not share the sets of a cache.
    """
    rows, columns = extent(part.p, a.step_h, a.taps_h, a.hop_h), extent(part.q, a.step_w, a.taps_w, a.hop_w)
    pixel = part.c * 4
    line = ((columns * pixel + (LINE - 1)) // LINE | 1) * LINE
    w0 = part.q0 * a.step_w + a.off_w
    left = code.least(code.most(0 - w0, 0), columns)
    right = code.most(code.least(a.width - w0, columns), left)
    with code.range(rows) as r:
        h = part.p0 * a.step_h + a.off_h + r
        row = to + r * part.n * line
        inside = code.both(h.is_(">=", 0), h < a.height)
        low, high = code.choose(inside, left, columns) * pixel, code.choose(inside, right, columns) * pixel
        with code.range(part.n) as i:
            for first, end in ((row + i * line, low), (row + i * line + high, columns * pixel - high)):
                with code.range(0, end, 4) as at:
                    code.put(ir.Constant(F32, 0.0), first + at)
        with code.when(inside):
            at = View(x + h * a.xh + (w0 + left) * a.xw, a.xn, a.xh, a.xw)
            _copy_row(code, a, at, (row + left * pixel, line, pixel), part, right - left)
    return View(to, line, part.n * line, pixel), rows * part.n * line


def _copy_row(code: Code, a: Any, x: View, to: tuple[Number, Number, Number], part: Part, count: Number) -> None:
    """`count` pixels of each image to (address, bytes from image to image, bytes from pixel to pixel)."""
    onto, line, pixel = to
    with code.either(a.xc.is_("!=", 4)) as (apart, together):
        with apart, code.range(part.n) as i, code.range(count) as q, code.range(part.c) as c:
            number = code.float_at(x.at + i * x.n + q * x.w + c * a.xc)
            code.put(number, onto + i * line + q * pixel + c * 4)
        with together, code.either(x.w.is_("==", pixel)) as (dense, spread):
            with dense:
                code.call("copy", x.at, x.n, onto, line, part.n, count * part.c)
            with spread, code.either(x.n < x.w) as (images, columns):
                with images, code.range(count) as q:
                    code.call("copy", x.at + q * x.w, x.n, onto + q * pixel, line, part.n, part.c)
                with columns, code.range(part.n) as i:
                    code.call("copy", x.at + i * x.n, x.w, onto + i * line, pixel, count, part.c)


def _ask(code: Code, wish: Wish, tile: Number) -> None:
    region, tick = wish.region, wish.tick + tile
    low, high = region.pieces * tick // wish.ticks, region.pieces * (tick + 1) // wish.ticks
    with code.range(low, high) as piece:
        rest, view = piece // region.n, region.view
        at = view.at + piece % region.n * view.n + rest % region.columns * view.w + rest // region.columns * view.h
        with code.range(0, region.size, LINE) as byte:
            code.fetch(at + byte, to_write=False)


class Operands(NamedTuple):
    """Of one run of tiles: A with its strides of row, k, o and call; B with its strides of k, o and call; the result."""

    a: tuple[Whole, Whole, Whole, Whole, Whole]
    b: tuple[Whole, Whole, Whole, Whole]
    result: tuple[Whole, Whole]  # address, stride of rows
    start: tuple[Number, ir.Value]  # a row that sums start from, and whether they do: else they go on from the result
    counts: tuple[Whole, Whole, Whole]  # of k, o and calls


def tiles_in(code: Code, a: Any, vectors: Number, run: Number) -> Number:
    """How many tiles a run of rows is cut into."""
    return code.up(run, code.integer(a.rows, vectors - 1))


def run_tiles(
    code: Code, a: Any, panel: tuple[Number, Number], run: Number, operands: Operands, floor: ir.Value, onward: Number,
    wishes: tuple[Wish, ...],
) -> None:  # fmt: skip
    """A run of rows in tiles of nearly equal height. `panel`: vectors, lanes.

    `onward`: from the last tile's result to the next that will be written.
    """
    vectors, lanes = panel
    (A, sAr, sAk, sAo, sAc), (B, sBk, sBo, sBc), (C, sCr) = operands.a, operands.b, operands.result
    nk, no, calls = operands.counts
    count = tiles_in(code, a, vectors, run)
    low, more = run // count, run % count
    at_A, at_C = Variable(code, A), Variable(code, C)
    with code.range(count) as tile:
        rows = low + code.choose(tile < more, 1, 0)
        kernel = code.integer(a.table, (vectors - 1) * MAX_ROWS + rows - 1)
        for wish in wishes:
            _ask(code, wish, tile)
        from_A, from_C = at_A.now, at_C.now
        at_A.set(from_A + rows * sAr)
        at_C.set(from_C + rows * sCr)
        ahead = from_C + code.choose(tile < count - 1, rows * sCr, onward)
        with code.range(rows) as r, code.range(0, vectors * (host().lanes * 4), LINE) as byte:
            code.fetch(ahead + r * sCr + byte, to_write=True)
        start, fresh = operands.start
        with code.range(calls) as call:
            fresh_now = code.both(fresh, call.is_("==", 0))
            initial, stride = code.choose(fresh_now, start, from_C), code.choose(fresh_now, 0, sCr)
            least = code.b.select(call.is_("==", calls - 1), floor, NONE)
            code.tile(
                kernel, from_A + call * sAc, sAr, sAk, sAo, B + call * sBc, sBk, sBo, from_C, sCr, initial, stride, nk, no,
                lanes, floor=least,
            )  # fmt: skip
