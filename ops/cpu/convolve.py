"""The loops of direct convolution that make images: outputs of a forward pass, or inputs of a backward one.

What never lives here: gradients of weights (`correlate`), sizes of blocks (`blocking`), strides of layers (`direct`).
"""

from __future__ import annotations

from typing import Any

from ops.cpu.blocks import (
    NONE,
    Corner,
    Operands,
    Part,
    Region,
    View,
    Wish,
    copy_block,
    corner,
    reached,
    run_tiles,
    tiles_in,
    units,
)
from ops.cpu.loops import Code, Number, Variable
from ops.cpu.pack import panel
from ops.cpu.target import host

FEW_WEIGHTS = 1 << 20  # bytes that stay in the second-level cache


def convolve(code: Code, a: Any, number: Number, size: Number) -> None:
    """y = max(x * w + bias, floor). Threads share the blocks and, in `parts`, the panels."""
    member, share, shares = number % a.parts, number // a.parts, size // a.parts
    total = a.groups * units(code, a)
    end = total * (share + 1) // shares
    x, xn, xh, xw = (Variable(code, 0) for _ in range(4))
    with code.range(total * share // shares, end) as unit:
        at, following = corner(code, a, unit), corner(code, a, unit + 1)
        n, p = code.least(a.images - at.n, a.block_n), code.least(a.high - at.p, a.block_h)
        q = code.least(a.wide - at.q, a.block_w)
        with code.range(code.up(a.channels, a.block_c)) as block:
            c0 = block * a.block_c
            part = Part(n, p, q, at.p, at.q, code.least(a.channels - c0, a.block_c), c0)
            with code.either(a.packed.is_("!=", 0)) as (copied, in_place):
                with copied:
                    source = a.x + at.g * a.x_group + c0 * a.xc + at.n * a.xn
                    view, _ = copy_block(code, a, a.scratch + number * a.scratch_each, source, part)
                    for variable, value in zip((x, xn, xh, xw), view, strict=True):
                        variable.set(value)
                with in_place:
                    for variable, value in zip((x, xn, xh, xw), pixels(a, at, c0), strict=True):
                        variable.set(value)
            ahead = code.choose(code.both(a.packed.is_("==", 0), unit < end - 1), n * p * q, 0)
            wish = Region(pixels(a, following, c0), n, q, ahead, part.c * 4)
            _outputs(code, a, member, at, part, View(x.now, xn.now, xh.now, xw.now), wish)


def pixels(a: Any, at: Corner, c0: Number) -> View:
    """x read in place, from a block's corner."""
    first = (at.p * a.step_h + a.off_h) * a.xh + (at.q * a.step_w + a.off_w) * a.xw
    return View(a.x + at.g * a.x_group + c0 * a.xc + at.n * a.xn + first, a.xn, a.xh, a.xw)


def _outputs(code: Code, a: Any, member: Number, at: Corner, part: Part, x: View, wish: Region) -> None:
    """One block: every panel of this thread's part over all its pixels."""
    low, high = code.integer(a.starts, member), code.integer(a.starts, member + 1)
    along = a.along.is_("!=", 0)
    mid, run = code.choose(along, part.n, part.q), code.choose(along, part.q, part.n)
    floor = code.b.select((part.c0 + part.c).is_("==", a.channels), a.floor, NONE)
    with code.range(low, high) as index:
        first, vectors, outputs, before = panel(code, a, index)
        width = vectors * (host().lanes * 4)
        weights = a.w + at.g * a.w_group + before + part.c0 * a.taps_h * a.taps_w * width
        y = a.y + at.g * a.y_group + at.n * a.yn + at.p * a.yh + at.q * a.yw + first * 4
        bias = code.choose(a.bias.is_("==", 0), a.zeros, a.bias + at.g * a.y_group + first * 4)
        each = tiles_in(code, a, vectors, run)
        ticks = each * part.p * mid
        coming = _next_panel(code, a, at, part, index, (low, high))
        with code.range(part.p) as i, code.range(mid) as j:
            tick = (i * mid + j) * each
            wishes = Wish(wish, (index - low) * ticks + tick, ticks * (high - low)), Wish(coming, tick, ticks)
            operands = _operands(code, a, part, x, (i, j), (weights, width), y, bias)
            step = code.choose(along, a.yn, a.yw)
            run_tiles(code, a, (vectors, outputs), run, operands, floor, step, wishes)


def _operands(
    code: Code, a: Any, part: Part, x: View, pixel: tuple[Number, Number], weights: tuple[Number, Number], y: Number,
    bias: Number,
) -> Operands:  # fmt: skip
    """Of one run. Taps in the padding are left out, except that a run along columns reads their zeros."""
    (i, j), (w, width) = pixel, weights
    along = a.along.is_("!=", 0)
    column = a.step_w * x.w
    line = a.taps_w * part.c * width
    t0, t1 = reached(code, (part.p0 + i) * a.step_h + a.off_h, a.hop_h, a.taps_h, a.height)
    u0, u1 = reached(code, (part.q0 + j) * a.step_w + a.off_w, a.hop_w, a.taps_w, a.width)
    u0, u1 = code.choose(along, 0, u0), code.choose(along, a.taps_w, u1)
    A = x.at + (i * a.step_h + t0 * a.hop_h) * x.h + j * code.choose(along, x.n, column) + u0 * a.hop_w * x.w
    B = w + t0 * line + u0 * part.c * width
    C = y + i * a.yh + j * code.choose(along, a.yn, a.yw)
    # the columns of a kernel row are one run of channels, unless taps are apart: then kernel rows are calls
    dense, empty = a.hop_w.is_("==", 1), code.any(t1 <= t0, u1 <= u0)
    nk = code.choose(empty, 0, code.choose(dense, (u1 - u0) * part.c, part.c))
    no, calls = code.choose(dense, t1 - t0, u1 - u0), code.choose(code.any(dense, empty), 1, t1 - t0)
    sAo = code.choose(dense, a.hop_h * x.h, a.hop_w * x.w)
    sBo = code.choose(dense, line, part.c * width)
    return Operands(
        (A, code.choose(along, column, x.n), 4, sAo, a.hop_h * x.h), (B, width, sBo, line),
        (C, code.choose(along, a.yw, a.yn)), (bias, part.c0.is_("==", 0)), (nk, no, calls),
    )  # fmt: skip


def _next_panel(code: Code, a: Any, at: Corner, part: Part, index: Number, members: tuple[Number, Number]) -> Region:
    """The weights that come after those of this panel, if they do not all stay near."""
    low, high = members
    around = (index + 1).is_("==", high)
    following = code.choose(around, low, index + 1)
    c0 = code.choose(around, (part.c0 + part.c) % a.channels, part.c0)
    _, vectors, _, before = panel(code, a, following)
    taps, width = a.taps_h * a.taps_w, vectors * (host().lanes * 4)
    depth = code.choose(a.w_group > FEW_WEIGHTS, code.least(a.channels - c0, a.block_c) * taps, 0)
    place = a.w + at.g * a.w_group + before + c0 * taps * width
    return Region(View(place, width, width, width), code.most(depth, 1), code.most(depth, 1), depth, width)
