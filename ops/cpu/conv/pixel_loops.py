"""The loops that make gradients of weights with one tap: the product of two matrices whose rows are
pixels.

The channels of one matrix are the rows of the result. It is read in place, or from a copy [vector
of channels][pixel][lane] where its pixels are so far apart that they share the sets of a cache. The
other matrix is copied panel by panel, or read in place too where rows are few. Either of x and dy
can come first; with dy first the result leaves in Caffe's order.
"""

from __future__ import annotations

from typing import Any

from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.values import Whole
from ops.cpu.conv.block_loops import (
    NONE,
    WORK,
    Ahead,
    Corner,
    Operands,
    Part,
    Region,
    View,
    corner,
    pixels,
    run_tiles,
    tiles_in,
    units,
)
from ops.cpu.conv.pack import first_vectors, panel
from ops.cpu.gemm.calls import Arguments, entry, mover, up

CHUNK = 16  # pixels copied at a time: as many streams as a processor prefetches


@generated(WORK)
def multiply_pixels(code: Code) -> None:
    """w = sum over pixels of x[pixel, row] y[pixel, column]. Threads share panels, channels and,
    last, pixels."""
    a = Arguments(code)
    member = code.number % a.parts
    rest = code.number // a.parts
    channel_part = rest % a.channel_parts
    share = rest // a.channel_parts
    shares = code.size // (a.parts * a.channel_parts)
    total = units(a)
    begin = total * share // shares
    end = total * (share + 1) // shares
    low, high = (a.channels * (channel_part + k) // a.channel_parts for k in (0, 1))
    soon = Ahead(code), Ahead(code)
    for g in code.loop(0, a.groups):
        for unit in code.loop(begin, end):
            at = corner(a, g * total + unit)
            following = corner(a, g * total + unit + 1)
            n = (a.images - at.n).least(a.block_n)
            p = (a.high - at.p).least(a.block_h)
            q = (a.wide - at.q).least(a.block_w)
            many = (unit < end - 1).pick(n * p * q, 0)
            for block in code.loop(0, up(high - low, a.block_c)):
                c0 = low + block * a.block_c
                part = Part(n, p, q, at.p, at.q, (high - c0).least(a.block_c), c0)
                soon_x = Region(pixels(a, following, c0), n, q, many, part.c * 4)
                soon_y = columns(
                    code, a, member, following, part, (c0 + part.c).equals(high).pick(many, 0)
                )
                to = a.w + share * a.w_part + g * a.w_group
                _products(
                    code, a, member, at, part, (to, unit.equals(begin)), (soon_x, soon_y), soon
                )


def columns(code: Code, a: Any, member: Whole, at: Corner, part: Part, pieces: Whole) -> Region:
    """The numbers of y that this thread's panels read in a block."""
    low = entry(code, a.starts, member)
    high = entry(code, a.starts, member + 1)
    first, _, _, _ = panel(code, a, low.least(a.panel_count - 1))
    last, _, outputs, _ = panel(code, a, (high - 1).most(0))
    place = a.y + at.g * a.y_group + at.n * a.yn + at.p * a.yh + at.q * a.yw + first * 4
    some = (low < high).pick(pieces, 0)
    return Region(View(place, a.yn, a.yh, a.yw), part.n, part.q, some, (last + outputs - first) * 4)


def _products(
    code: Code,
    a: Any,
    member: Whole,
    at: Corner,
    part: Part,
    to: tuple[Whole, Any],
    wishes: tuple[Region, Region],
    soon: tuple[Ahead, Ahead],
) -> None:
    """Compute one block: every panel of this thread's part, copied, against every channel."""
    low = entry(code, a.starts, member)
    high = entry(code, a.starts, member + 1)
    mine = a.scratch + code.number * a.scratch_each
    count = part.n * part.p * part.q
    in_place = a.packed.equals(0)
    # an odd number of vectors: planes do not share sets
    plane = (count + 1 - count % 2) * (code.lanes * 4)
    each = in_place.pick(part.c, code.lanes)
    groups = up(part.c, each)
    x = pixels(a, at, part.c0)
    with code.when(a.packed.equals(1)):
        _copy_rows(code, a, part, x, mine, plane)
    spare = mine + in_place.pick(0, groups * plane)
    asks = groups * (high - low) * tiles_in(code, a, first_vectors(code, a, low), each)
    for ahead, wish in zip(soon, wishes, strict=True):
        ahead.start(wish, asks)
    for index in code.loop(low, high):
        first, vectors, outputs, before = panel(code, a, index)
        width = vectors * (code.lanes * 4)
        y = View(
            a.y + at.g * a.y_group + at.n * a.yn + at.p * a.yh + at.q * a.yw + first * 4,
            a.yn,
            a.yh,
            a.yw,
        )
        # with so few rows a copied panel is hardly read again, so y is read in place
        once = a.in_place.equals(1)
        for i in code.loop(0, once.pick(0, part.p)):
            for j in code.loop(0, part.q):
                onto = spare + (i * part.q + j) * part.n * width
                mover(code, a.copy, y.at + i * y.h + j * y.w, y.n, onto, width, part.n, outputs)
        apart = a.w_row.equals(0)  # in panels, as `unpack_weights` takes them
        row = apart.pick(width, a.w_row)
        start = to[0] + apart.pick(before, first * 4)
        for group in code.loop(0, groups):
            run = (part.c - group * each).least(each)
            A = in_place.pick(x.at, mine + group * plane)
            sAk = in_place.pick(x.n, code.lanes * 4)
            result = start + (part.c0 + group * each) * row
            operands = Operands(
                (A, 4, sAk, 0, 0),
                (once.pick(y.at, spare), once.pick(y.n, width), 0, 0),
                (result, row),
                (a.zeros, to[1]),
                (count, code.whole(1), code.whole(1)),
            )
            run_tiles(
                code,
                a,
                (vectors, outputs),
                (run, tiles_in(code, a, vectors, run)),
                operands,
                NONE,
                row * run,
                soon,
            )


def _copy_rows(code: Code, a: Any, part: Part, x: View, to: Whole, plane: Whole) -> None:
    """Copy the channels of a block's pixels to [vector][pixel][lane]."""
    lanes = code.lanes
    for i in code.loop(0, part.p):
        for j in code.loop(0, part.q):
            for n in code.loop(0, part.n, CHUNK):
                source = x.at + i * a.step_h * x.h + j * a.step_w * x.w + n * x.n
                onto = to + ((i * part.q + j) * part.n + n) * (lanes * 4)
                some = (part.n - n).least(CHUNK)
                for group in code.loop(0, up(part.c, lanes)):
                    wide = (part.c - group * lanes).least(lanes)
                    mover(
                        code,
                        a.copy,
                        source + group * (lanes * 4),
                        x.n,
                        onto + group * plane,
                        lanes * 4,
                        some,
                        wide,
                    )
