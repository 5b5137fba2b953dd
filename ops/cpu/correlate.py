"""The loops of direct convolution that make gradients of weights: x against y, summed over pixels.

What never lives here: images (`convolve`), sizes of blocks (`blocking`), strides of layers (`direct`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    extent,
    reached,
    run_tiles,
    tiles_in,
    units,
)
from ops.cpu.convolve import pixels
from ops.cpu.loops import Code, Number, Variable
from ops.cpu.pack import panel
from ops.cpu.target import host

FEW = 12  # channels: with fewer, zeros of the padding cost less than tiles of few rows


class Order(NamedTuple):
    """How the pixels of a block are summed: the longer of columns and images inside, then the other, then rows."""

    swapped: Any
    inner: Number
    outer: Number


def correlate(code: Code, a: Any, number: Number, size: Number) -> None:
    """Sums of x times y into [part][group][panel][tap][channel][lane]. Threads share panels, channels, last pixels."""
    member, rest = number % a.parts, number // a.parts
    channel_part, share, shares = rest % a.channel_parts, rest // a.channel_parts, size // (a.parts * a.channel_parts)
    total = units(code, a)
    begin, end = total * share // shares, total * (share + 1) // shares
    low, high = (a.channels * (channel_part + k) // a.channel_parts for k in (0, 1))
    mine = a.scratch + number * a.scratch_each
    x, xn, xh, xw, spare = (Variable(code, 0) for _ in range(5))
    with code.range(a.groups) as g, code.range(begin, end) as unit:
        at, following = corner(code, a, g * total + unit), corner(code, a, g * total + unit + 1)
        n, p = code.least(a.images - at.n, a.block_n), code.least(a.high - at.p, a.block_h)
        q = code.least(a.wide - at.q, a.block_w)
        ahead = code.choose(unit < end - 1, n * p * q, 0)
        with code.range(code.up(high - low, a.block_c)) as block:
            c0 = low + block * a.block_c
            part = Part(n, p, q, at.p, at.q, code.least(high - c0, a.block_c), c0)
            with code.either(a.packed.is_("!=", 0)) as (copied, in_place):
                with copied:
                    source = a.x + at.g * a.x_group + c0 * a.xc + at.n * a.xn
                    view, used = copy_block(code, a, mine, source, part)
                    for variable, value in zip((x, xn, xh, xw, spare), (*view, mine + used), strict=True):
                        variable.set(value)
                with in_place:
                    for variable, value in zip((x, xn, xh, xw, spare), (*pixels(a, at, c0), mine), strict=True):
                        variable.set(value)
            soon_x = Region(pixels(a, following, c0), n, q, code.choose(a.packed.is_("==", 0), ahead, 0), part.c * 4)
            pieces = code.choose((c0 + part.c).is_("==", high), ahead, 0)
            soon_y = _columns(code, a, member, following, part, pieces)
            to = a.w + share * a.w_part + g * a.w_group
            view = View(x.now, xn.now, xh.now, xw.now)
            _gradients(code, a, member, at, part, view, (to, spare.now, unit.is_("==", begin)), (soon_x, soon_y))


def _columns(code: Code, a: Any, member: Number, at: Corner, part: Part, pieces: Number) -> Region:
    """y of a block, as far as this thread's panels go."""
    low, high = code.integer(a.starts, member), code.integer(a.starts, member + 1)
    some = code.choose(low < high, pieces, 0)
    first, _, _, _ = panel(code, a, code.least(low, a.panel_count - 1))
    last, _, outputs, _ = panel(code, a, code.most(high - 1, 0))
    place = a.y + at.g * a.y_group + at.n * a.yn + at.p * a.yh + at.q * a.yw + first * 4
    return Region(View(place, a.yn, a.yh, a.yw), part.n, part.q, some, (last + outputs - first) * 4)


def _gradients(
    code: Code, a: Any, member: Number, at: Corner, part: Part, x: View, places: tuple[Number, Number, Any],
    soon: tuple[Region, Region],
) -> None:  # fmt: skip
    """One block: every panel of this thread's part, copied to `spare`, against every tap and channel."""
    to, spare, fresh = places
    low, high = code.integer(a.starts, member), code.integer(a.starts, member + 1)
    swapped = part.n > part.q * 2
    order = Order(swapped, code.choose(swapped, part.n, part.q), code.choose(swapped, part.q, part.n))
    edges = code.any(a.off_w < 0, a.off_w + extent(a.wide, a.step_w, a.taps_w, a.hop_w) > a.width)
    # the columns of a kernel row are one run of channels, unless that would cost products with zeros
    whole = code.both(
        a.hop_w.is_("==", 1), part.c.is_("==", a.channels), code.any(code.b.not_(edges), part.c < FEW)
    )
    spans, span = code.choose(whole, 1, a.taps_w), code.choose(whole, a.taps_w * part.c, part.c)
    with code.range(low, high) as index:
        first, vectors, outputs, before = panel(code, a, index)
        width = vectors * (host().lanes * 4)
        y = a.y + at.g * a.y_group + at.n * a.yn + at.p * a.yh + at.q * a.yw + first * 4
        _copy_panel(code, a, part, order, y, (spare, width, outputs))
        each = tiles_in(code, a, vectors, span)
        ticks = each * spans * a.taps_h * (high - low)
        with code.range(a.taps_h) as i, code.range(spans) as j:
            tick = (((index - low) * a.taps_h + i) * spans + j) * each
            result = to + before + ((i * a.taps_w + j) * a.channels + part.c0) * width
            operands = _operands(code, a, part, x, (i, j, whole), order, (spare, width), result, fresh)
            wishes = tuple(Wish(region, tick, ticks) for region in soon)
            run_tiles(code, a, (vectors, outputs), span, operands, NONE, a.channels * width, wishes)


def _copy_panel(
    code: Code, a: Any, part: Part, order: Order, y: Number, to: tuple[Number, Number, Number]
) -> None:
    """The outputs of a panel, a row after the other in the order of the sums."""
    spare, width, outputs = to
    step, apart = code.choose(order.swapped, a.yn, a.yw), code.choose(order.swapped, a.yw, a.yn)
    with code.range(part.p) as i, code.range(order.outer) as j:
        onto = spare + (i * order.outer + j) * order.inner * width
        code.call("copy", y + i * a.yh + j * apart, step, onto, width, order.inner, outputs)


def _operands(
    code: Code, a: Any, part: Part, x: View, tap: tuple[Number, Number, Any], order: Order, y: tuple[Number, Number],
    result: Number, fresh: Any,
) -> Operands:  # fmt: skip
    """Of one tap. Pixels that it finds in the padding are left out."""
    (i, j, whole), (spare, width), (swapped, inner, outer) = tap, y, order
    i0, i1 = reached(code, part.p0 * a.step_h + a.off_h + i * a.hop_h, a.step_h, part.p, a.height)
    j0, j1 = reached(code, part.q0 * a.step_w + a.off_w + j * a.hop_w, a.step_w, part.q, a.width)
    j0, j1 = code.choose(whole, 0, j0), code.choose(whole, part.q, j1)
    column, row = a.step_w * x.w, a.step_h * x.h
    A = x.at + i0 * row + i * a.hop_h * x.h + j0 * column + j * a.hop_w * x.w
    B = spare + (i0 * outer * inner + code.choose(swapped, j0 * inner, j0)) * width
    nk, no = code.choose(swapped, part.n, j1 - j0), code.choose(swapped, j1 - j0, part.n)
    sAk, sAo = code.choose(swapped, x.n, column), code.choose(swapped, column, x.n)
    # rows that go on where the outer sums end are summed with them in one call
    joined = code.both(row.is_("==", outer * sAo), no.is_("==", outer))
    empty = code.any(i1 <= i0, j1 <= j0)
    no = code.choose(joined, no * (i1 - i0), no)
    calls = code.choose(code.any(joined, empty), 1, i1 - i0)
    return Operands(
        (A, 4, sAk, sAo, row), (B, width, inner * width, outer * inner * width), (result, width), (a.zeros, fresh),
        (code.choose(empty, 0, nk), no, calls),
    )  # fmt: skip
