"""The loops of direct convolution that make images: outputs of a forward pass, or gradients by x of
a backward one."""

from __future__ import annotations

from typing import Any

from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.values import Choice, Whole
from ops.cpu.conv.block_loops import (
    NONE,
    WORK,
    Ahead,
    Corner,
    Operands,
    Part,
    Region,
    View,
    copy_block,
    corner,
    pixels,
    reached,
    run_tiles,
    tiles_in,
    units,
)
from ops.cpu.conv.pack import first_vectors, panel
from ops.cpu.gemm.calls import Arguments, either, entry, up

FEW_WEIGHTS = 1 << 20  # bytes that stay in the second-level cache


@generated(WORK)
def convolve(code: Code) -> None:
    """y = max(x * w + bias, floor). Threads share the blocks and, in `parts`, the panels."""
    a = Arguments(code)
    member = code.number % a.parts
    share = code.number // a.parts
    shares = code.size // a.parts
    total = a.groups * units(a)
    end = total * (share + 1) // shares
    place = [code.variable(code.whole(0)) for _ in View._fields]
    soon = Ahead(code), Ahead(code)
    for unit in code.loop(total * share // shares, end):
        at = corner(a, unit)
        following = corner(a, unit + 1)
        n = (a.images - at.n).least(a.block_n)
        p = (a.high - at.p).least(a.block_h)
        q = (a.wide - at.q).least(a.block_w)
        for block in code.loop(0, up(a.channels, a.block_c)):
            c0 = block * a.block_c
            part = Part(n, p, q, at.p, at.q, (a.channels - c0).least(a.block_c), c0)
            with either(code, a.packed.equals(0)) as (in_place, copied):
                with copied:
                    source = a.x + at.g * a.x_group + c0 * a.xc + at.n * a.xn
                    view, _ = copy_block(
                        code, a, a.scratch + code.number * a.scratch_each, source, part
                    )
                    _set(place, view)
                with in_place:
                    _set(place, pixels(a, at, c0))
            many = (a.packed.equals(0) & (unit < end - 1)).pick(n * p * q, 0)
            wish = Region(pixels(a, following, c0), n, q, many, part.c * 4)
            _outputs(code, a, member, at, part, View(*(part.get() for part in place)), wish, soon)
    code.b.fence("seq_cst")  # other threads see writes past the caches only after a fence


def _set(variables: list[Any], values: View) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.set(value)


def _outputs(
    code: Code,
    a: Any,
    member: Whole,
    at: Corner,
    part: Part,
    x: View,
    wish: Region,
    soon: tuple[Ahead, Ahead],
) -> None:
    """Compute one block: every panel of this thread's part over all its pixels."""
    low = entry(code, a.starts, member)
    high = entry(code, a.starts, member + 1)
    along = a.along.equals(1)
    mid = along.pick(part.n, part.q)
    run = along.pick(part.q, part.n)
    floor = code.b.select((part.c0 + part.c).equals(a.channels).value, a.floor, NONE)
    past = (part.c0 + part.c).equals(a.channels).pick(a.beyond, 0)
    bare = Choice(code.b, code.b.fcmp_ordered("==", a.floor, NONE))
    soon[0].start(
        wish, part.p * mid * (high - low) * tiles_in(code, a, first_vectors(code, a, low), run)
    )
    for index in code.loop(low, high):
        first, vectors, outputs, before = panel(code, a, index)
        width = vectors * (code.lanes * 4)
        weights = a.w + at.g * a.w_group + before + part.c0 * a.taps_h * a.taps_w * width
        y = a.y + at.g * a.y_group + at.n * a.yn + at.p * a.yh + at.q * a.yw + first * 4
        bias = a.bias.equals(0).pick(bare.pick(0, a.zeros), a.bias + at.g * a.y_group + first * 4)
        each = tiles_in(code, a, vectors, run)
        soon[1].start(_next_panel(code, a, at, part, index, (low, high)), each * part.p * mid)
        for i in code.loop(0, part.p):
            for j in code.loop(0, mid):
                operands = _operands(a, part, x, (i, j), (weights, width), y, bias)
                step = along.pick(a.yn, a.yw)
                run_tiles(
                    code, a, (vectors, outputs), (run, each), operands, floor, step, soon, past
                )


def _operands(
    a: Any,
    part: Part,
    x: View,
    pixel: tuple[Whole, Whole],
    weights: tuple[Whole, Whole],
    y: Whole,
    bias: Whole,
) -> Operands:
    """The operands of one run. Taps in the padding are left out, except that a run along columns
    reads their zeros."""
    (i, j), (w, width) = pixel, weights
    along = a.along.equals(1)
    column = a.step_w * x.w
    line = a.taps_w * part.c * width
    t0, t1 = reached((part.p0 + i) * a.step_h + a.off_h, a.hop_h, a.taps_h, a.height)
    u0, u1 = reached((part.q0 + j) * a.step_w + a.off_w, a.hop_w, a.taps_w, a.width)
    u0 = along.pick(0, u0)
    u1 = along.pick(a.taps_w, u1)
    A = (
        x.at
        + (i * a.step_h + t0 * a.hop_h) * x.h
        + j * along.pick(x.n, column)
        + u0 * a.hop_w * x.w
    )
    B = w + t0 * line + u0 * part.c * width
    C = y + i * a.yh + j * along.pick(a.yn, a.yw)
    # the columns of a kernel row are one run of channels, unless taps are apart: then kernel rows
    # are calls
    dense = a.hop_w.equals(1)
    empty = (t1 < t0 + 1) | (u1 < u0 + 1)
    nk = empty.pick(0, dense.pick((u1 - u0) * part.c, part.c))
    no = dense.pick(t1 - t0, u1 - u0)
    calls = (dense | empty).pick(1, t1 - t0)
    sAo = dense.pick(a.hop_h * x.h, a.hop_w * x.w)
    sBo = dense.pick(line, part.c * width)
    return Operands(
        (A, along.pick(column, x.n), 4, sAo, a.hop_h * x.h),
        (B, width, sBo, line),
        (C, along.pick(a.yw, a.yn)),
        (bias, part.c0.equals(0)),
        (nk, no, calls),
    )


def _next_panel(
    code: Code, a: Any, at: Corner, part: Part, index: Whole, members: tuple[Whole, Whole]
) -> Region:
    """The weights that follow those of this panel, unless all weights stay in the cache."""
    low, high = members
    around = (index + 1).equals(high)
    following = around.pick(low, index + 1)
    c0 = around.pick((part.c0 + part.c) % a.channels, part.c0)
    _, vectors, _, before = panel(code, a, following)
    taps = a.taps_h * a.taps_w
    width = vectors * (code.lanes * 4)
    depth = (a.w_group < FEW_WEIGHTS).pick(0, (a.channels - c0).least(a.block_c) * taps)
    place = a.w + at.g * a.w_group + before + c0 * taps * width
    return Region(View(place, width, width, width), depth.most(1), code.whole(1), depth, width)
