"""The loops of direct convolution that make gradients of weights of several taps: x times y, summed
over pixels."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    extent,
    reached,
    run_tiles,
    tiles_in,
    units,
)
from ops.cpu.conv.pack import first_vectors, panel
from ops.cpu.conv.pixel_loops import columns
from ops.cpu.gemm.calls import Arguments, entry, mover, up

FEW = 12  # channels; with fewer, products with the padding's zeros cost less than tiles of few rows


class Order(NamedTuple):
    """How the pixels of a block are summed: the longer of columns and images inside, then the
    other, then rows."""

    swapped: Choice
    inner: Whole
    outer: Whole


@generated(WORK)
def correlate(code: Code) -> None:
    """Sums of x times y into [part][group][panel][tap][channel][lane]. Threads share panels,
    channels and, last, pixels."""
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
            to = a.w + share * a.w_part + g * a.w_group
            for block in code.loop(0, up(high - low, a.block_c)):
                c0 = low + block * a.block_c
                part = Part(n, p, q, at.p, at.q, (high - c0).least(a.block_c), c0)
                mine = a.scratch + code.number * a.scratch_each
                source = a.x + at.g * a.x_group + c0 * a.xc + at.n * a.xn
                view, used = copy_block(code, a, mine, source, part)
                soon_y = columns(
                    code, a, member, following, part, (c0 + part.c).equals(high).pick(many, 0)
                )
                _gradients(
                    code,
                    a,
                    member,
                    at,
                    part,
                    view,
                    (to, mine + used, unit.equals(begin)),
                    soon_y,
                    soon,
                )


def _gradients(
    code: Code,
    a: Any,
    member: Whole,
    at: Corner,
    part: Part,
    x: View,
    places: tuple[Whole, Whole, Choice],
    wish: Region,
    soon: tuple[Ahead, Ahead],
) -> None:
    """Compute one block: every panel of this thread's part, against every tap and channel.

    A panel is copied to `spare`. If it holds all outputs of a pixel, it is read where it lies.
    """
    to, spare, fresh = places
    low = entry(code, a.starts, member)
    high = entry(code, a.starts, member + 1)
    in_place = a.in_place.equals(1)
    swapped = (part.q * 2 < part.n) | in_place
    order = Order(swapped, swapped.pick(part.n, part.q), swapped.pick(part.q, part.n))
    edges = (a.off_w < 0) | (a.width < a.off_w + extent(a.wide, a.step_w, a.taps_w, a.hop_w))
    # the columns of a kernel row are one run of channels, unless that would cost products with
    # zeros
    whole = a.hop_w.equals(1) & part.c.equals(a.channels) & (edges.pick(part.c, 0) < FEW)
    spans = whole.pick(1, a.taps_w)
    span = whole.pick(a.taps_w * part.c, part.c)
    asks = spans * a.taps_h * (high - low) * tiles_in(code, a, first_vectors(code, a, low), span)
    soon[0].start(wish._replace(pieces=code.whole(0)), asks)
    soon[1].start(wish, asks * in_place.pick(part.p, 1))
    for index in code.loop(low, high):
        first, vectors, outputs, before = panel(code, a, index)
        width = vectors * (code.lanes * 4)
        y = a.y + at.g * a.y_group + at.n * a.yn + at.p * a.yh + at.q * a.yw + first * 4
        with code.when(a.in_place.equals(0)):
            _copy_panel(code, a, part, order, y, (spare, width, outputs))
        by_outer = in_place.pick(a.yw, order.inner * width)
        by_row = in_place.pick(a.yh, order.outer * order.inner * width)
        rows = in_place.pick(y, spare), in_place.pick(a.yn, width), by_outer, by_row
        each = tiles_in(code, a, vectors, span)
        for i in code.loop(0, a.taps_h):
            for j in code.loop(0, spans):
                result = to + before + ((i * a.taps_w + j) * a.channels + part.c0) * width
                operands = _operands(a, part, x, (i, j, whole), order, rows, (result, width), fresh)
                run_tiles(
                    code,
                    a,
                    (vectors, outputs),
                    (span, each),
                    operands,
                    NONE,
                    a.channels * width,
                    soon,
                )


def _copy_panel(
    code: Code, a: Any, part: Part, order: Order, y: Whole, to: tuple[Whole, Whole, Whole]
) -> None:
    """Copy the outputs of a panel, row after row in the order of the sums."""
    spare, width, outputs = to
    step = order.swapped.pick(a.yn, a.yw)
    apart = order.swapped.pick(a.yw, a.yn)
    for i in code.loop(0, part.p):
        for j in code.loop(0, order.outer):
            onto = spare + (i * order.outer + j) * order.inner * width
            mover(code, a.copy, y + i * a.yh + j * apart, step, onto, width, order.inner, outputs)


def _operands(
    a: Any,
    part: Part,
    x: View,
    tap: tuple[Whole, Whole, Choice],
    order: Order,
    y: tuple[Whole, Whole, Whole, Whole],
    result: tuple[Whole, Whole],
    fresh: Choice,
) -> Operands:
    """The operands of the sums of one tap, without its pixels in the padding."""
    (i, j, whole), (from_y, sBk, sBo, sBc), (swapped, _, outer) = tap, y, order
    i0, i1 = reached(part.p0 * a.step_h + a.off_h + i * a.hop_h, a.step_h, part.p, a.height)
    j0, j1 = reached(part.q0 * a.step_w + a.off_w + j * a.hop_w, a.step_w, part.q, a.width)
    j0 = whole.pick(0, j0)
    j1 = whole.pick(part.q, j1)
    column = a.step_w * x.w
    row = a.step_h * x.h
    A = x.at + i0 * row + i * a.hop_h * x.h + j0 * column + j * a.hop_w * x.w
    B = from_y + i0 * sBc + swapped.pick(j0 * sBo, j0 * sBk)
    nk = swapped.pick(part.n, j1 - j0)
    no = swapped.pick(j1 - j0, part.n)
    sAk = swapped.pick(x.n, column)
    sAo = swapped.pick(column, x.n)
    # rows that continue where the outer sums end are summed in the same call
    joined = row.equals(outer * sAo) & no.equals(outer) & sBc.equals(outer * sBo)
    empty = (i1 < i0 + 1) | (j1 < j0 + 1)
    no = joined.pick(no * (i1 - i0), no)
    calls = (joined | empty).pick(1, i1 - i0)
    return Operands(
        (A, 4, sAk, sAo, row), (B, sBk, sBo, sBc), result, (a.zeros, fresh),
        (empty.pick(0, nk), no, calls),
    )  # fmt: skip
