"""What the loops of direct convolution share: a block of work, its copy of x, and runs of tiles over it.

Both kinds of loops walk over blocks (group, images, rows, columns). For a block the part of x that it reads is copied,
with its padding as zeros, into a dense [row][image][column][channel] of the thread's own, so that one call of the
micro-kernel sums over all taps; where there is one tap, x may be read in place (`packed` 0). Output (p, q) reads x at
p * step + off + tap * hop. What never lives here: which sums are formed (`convolve`, `correlate`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ops.cpu.ir_tools import I32
from ops.cpu.kernel import floats, integers
from ops.cpu.microkernel import MAX_ROWS, call_tile
from ops.cpu.pack import helper
from ops.cpu.rearrange import call_copy

GEOMETRY = (
    "x xn xc xh xw y yn yh yw w scratch scratch_each images height width channels high wide groups x_group y_group "
    "w_group step_h step_w off_h off_w hop_h hop_w taps_h taps_w block_n block_h block_w block_c packed "
    "panels panel_count starts parts table rows lanes zeros copy "
)
NONE = np.float32(-np.inf)
NOTHING = (0, 1, 0, 1, 0, 0, 0, 0)  # the region `ask` asks nothing of


def _prefetch(write: int, locality: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
            kind = ir.FunctionType(ir.VoidType(), [pointer.type, I32, I32, I32])
            name = "llvm.prefetch.p0"
            known = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            builder.call(known, [pointer, I32(write), I32(locality), I32(1)])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return prefetch


to_write = _prefetch(1, 3)  # into the first-level cache, owned
to_read = _prefetch(0, 2)  # into the second-level cache


@helper
def corner(a, unit):  # type: ignore[no-untyped-def]
    """The group, first image, first row and first column of a block."""
    tall, broad, many = -(-a.high // a.block_h), -(-a.wide // a.block_w), -(-a.images // a.block_n)
    q, rest = unit % broad * a.block_w, unit // broad
    p, rest = rest % tall * a.block_h, rest // tall
    return rest // many, rest % many * a.block_n, p, q


@helper
def extent(count, step, taps, hop):  # type: ignore[no-untyped-def]
    """Pixels along one axis that `count` outputs read."""
    return (count - 1) * step + (taps - 1) * hop + 1


@helper
def line_bytes(count):  # type: ignore[no-untyped-def]
    """Bytes from image to image in a block: an odd number of cache lines, so that images do not share sets."""
    return ((count * 4 + 63) // 64 | 1) * 64


@helper
def gather(a, to, line, source, n, c, h0, rows, w0, columns):  # type: ignore[no-untyped-def]
    """Copy `rows` x `columns` pixels from (h0, w0) on of n images, c channels, to [row][image][column][c]; 0 outside.

    `line` bytes from image to image.
    """
    left = min(max(0, -w0), columns)
    right = max(left, min(columns, a.width - w0))
    pixel = c * 4
    for r in range(rows):
        h = h0 + r
        block = to + r * n * line
        inside = 0 <= h < a.height
        for i in range(n):
            edge = floats(block + i * line, columns * c)
            for k in range(left * c if inside else columns * c):
                edge[k] = 0
            for k in range(right * c if inside else columns * c, columns * c):
                edge[k] = 0
        if not inside:
            continue
        at, onto, count = source + h * a.xh + (w0 + left) * a.xw, block + left * pixel, right - left
        if a.xc != 4:
            _interleave(a, at, onto, line, n, c, count)
        elif a.xw == pixel:
            call_copy(a.copy, at, a.xn, onto, line, n, count * c)
        elif a.xn < a.xw:
            for q in range(count):
                call_copy(a.copy, at + q * a.xw, a.xn, onto + q * pixel, line, n, c)
        else:
            for i in range(n):
                call_copy(a.copy, at + i * a.xn, a.xw, onto + i * line, pixel, count, c)


@helper
def _interleave(a, at, onto, line, n, c, count):  # type: ignore[no-untyped-def]
    """A row of pixels whose channels lie apart."""
    sc, sw = a.xc // 4, a.xw // 4
    for i in range(n):
        source, target = floats(at + i * a.xn, 1 << 40), floats(onto + i * line, count * c)
        for q in range(count):
            for k in range(c):
                target[q * c + k] = source[q * sw + k * sc]


@helper
def reached(first, hop, taps, size):  # type: ignore[no-untyped-def]
    """The taps [low, high) whose pixel first + tap * hop lies in [0, size)."""
    return max(0, -(first // hop)), max(0, min(taps, (size - 1 - first) // hop + 1))


@helper
def ask(region, tick, ticks):  # type: ignore[no-untyped-def]
    """Have one part in `ticks` of a region brought near, which a later block reads.

    A region: address, (count, stride) of the inner and of the middle axis, stride of the outer axis, pieces, and the
    bytes of a piece.
    """
    at, n, sn, q, sq, sp, pieces, size = region
    for piece in range(pieces * tick // ticks, pieces * (tick + 1) // ticks):
        i, rest = piece % n, piece // n
        here = at + i * sn + rest % q * sq + rest // q * sp
        for byte in range(0, size, 64):
            to_read(here + byte)


@helper
def tiles_of(a, vectors, run):  # type: ignore[no-untyped-def]
    """How many tiles a run of rows is cut into."""
    return -(-run // integers(a.rows, 8)[vectors - 1])


@helper
def run_tiles(  # type: ignore[no-untyped-def]
    a, vectors, lanes, run, operand_a, operand_b, result, start, counts, floor, onward, wishes, tick
):
    """A run of rows in tiles of nearly equal height, each the sum of `calls` calls of the micro-kernel.

    Operands: address, strides of row (A only), k, o and call. Result: address, stride of rows. Start: the row that sums
    start from, and whether they do; else they go on from the result. `onward`: from the last tile's result to the next
    that will be written. `wishes`: two regions and the ticks each is spread over.
    """
    A, sAr, sAk, sAo, sAc = operand_a
    B, sBk, sBo, sBc = operand_b
    C, sCr = result
    first, fresh = start
    nk, no, calls = counts
    table = integers(a.table, 8 * MAX_ROWS)
    count = tiles_of(a, vectors, run)
    low = run // count
    more = run - low * count
    for tile in range(count):
        rows = low + 1 if tile < more else low
        code = table[(vectors - 1) * MAX_ROWS + rows - 1]
        ask(wishes[0], tick + tile, wishes[1])
        ask(wishes[2], tick % wishes[3] + tile, wishes[3])
        ahead = C + (rows * sCr if tile < count - 1 else onward)
        for r in range(rows):
            for byte in range(0, vectors * a.lanes * 4, 64):
                to_write(ahead + r * sCr + byte)
        I, sIr = (first, 0) if fresh else (C, sCr)  # noqa: E741
        for call in range(calls):
            least = floor if call == calls - 1 else NONE
            call_tile(
                code, A + call * sAc, sAr, sAk, sAo, B + call * sBc, sBk, sBo, C, sCr, I, sIr, nk, no, lanes, least
            )
            I, sIr = C, sCr  # noqa: E741
        A += rows * sAr
        C += rows * sCr
