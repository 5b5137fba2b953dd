"""The loops of direct convolution that make gradients of weights: x against y, summed over pixels.

What never lives here: images (`convolve`), sizes of blocks (`blocking`), strides of layers (`direct`).
"""

from __future__ import annotations

from ops.cpu.blocks import (
    GEOMETRY,
    NONE,
    NOTHING,
    corner,
    extent,
    gather,
    line_bytes,
    reached,
    run_tiles,
    tiles_of,
)
from ops.cpu.kernel import arguments, integers, kernel, layout
from ops.cpu.pack import PANEL_FIELDS, helper
from ops.cpu.rearrange import call_copy

FEW = 12  # channels: with fewer, zeros of the padding cost less than tiles of few rows


@kernel(layout(GEOMETRY + "channel_parts w_part"))
def correlate(number, size, at):  # type: ignore[no-untyped-def]
    """Sums of x times y into [part][group][panel][tap][channel][lane]. Threads share panels, channels and, last, pixels."""
    a = arguments(at)
    part, rest = number % a.parts, number // a.parts
    channel_part, share = rest % a.channel_parts, rest // a.channel_parts
    shares = size // (a.parts * a.channel_parts)
    units = -(-a.high // a.block_h) * -(-a.wide // a.block_w) * -(-a.images // a.block_n)
    mine = a.scratch + number * a.scratch_each
    low, high = a.channels * channel_part // a.channel_parts, a.channels * (channel_part + 1) // a.channel_parts
    begin, end = units * share // shares, units * (share + 1) // shares
    for step in range(a.groups * (end - begin)):
        unit = step // (end - begin) * units + begin + step % (end - begin)
        g, n0, p0, q0 = corner(a, unit)
        n, p, q = min(a.block_n, a.images - n0), min(a.block_h, a.high - p0), min(a.block_w, a.wide - q0)
        h0, w0 = p0 * a.step_h + a.off_h, q0 * a.step_w + a.off_w
        y = a.y + g * a.y_group + n0 * a.yn + p0 * a.yh + q0 * a.yw
        to = a.w + share * a.w_part + g * a.w_group
        last = step + 1 == a.groups * (end - begin)
        g1, n1, p1, q1 = corner(a, unit + 1)
        for c0 in range(low, high, a.block_c):
            c = min(a.block_c, high - c0)
            x = a.x + g * a.x_group + c0 * a.xc + n0 * a.xn
            wish_x, wish_y = NOTHING, NOTHING
            if c0 + c == high and not last:
                following = a.y + g1 * a.y_group + n1 * a.yn + p1 * a.yh + q1 * a.yw
                wish_y = _columns(a, part, following, n, q, n * p * q)
            if a.packed:
                rows, columns = extent(p, a.step_h, a.taps_h, a.hop_h), extent(q, a.step_w, a.taps_w, a.hop_w)
                line = line_bytes(columns * c)
                gather(a, mine, line, x, n, c, h0, rows, w0, columns)
                strides, spare = (mine, line, n * line, c * 4), mine + rows * n * line
            else:
                strides, spare = (x + h0 * a.xh + w0 * a.xw, a.xn, a.xh, a.xw), mine
                if not last:
                    following = a.x + g1 * a.x_group + c0 * a.xc + n1 * a.xn + p1 * a.xh + q1 * a.xw
                    wish_x = following, n, a.xn, q, a.xw, a.xh, n * p * q, c * 4
            _gradients(a, part, c0, c, n, p, q, p0, q0, strides, y, to, spare, unit == g * units + begin, wish_x, wish_y)


@helper
def _columns(a, part, at, n, q, pixels):  # type: ignore[no-untyped-def]
    """The region of y at `at`, as far as this thread's panels go."""
    panels, starts = integers(a.panels, a.panel_count * PANEL_FIELDS), integers(a.starts, a.parts + 1)
    if starts[part] == starts[part + 1]:
        return NOTHING
    first, last = starts[part] * PANEL_FIELDS, (starts[part + 1] - 1) * PANEL_FIELDS
    size = (panels[last] + panels[last + 2] - panels[first]) * 4
    return at + panels[first] * 4, n, a.yn, q, a.yw, a.yh, pixels, size


@helper
def _gradients(a, part, c0, c, n, p, q, p0, q0, strides, y, to, spare, first, wish_x, wish_y):  # type: ignore[no-untyped-def]
    """One block: every panel of this thread's part, packed into `spare`, against every tap and channel.

    Inner and outer sums are columns and images; pixels that a tap finds in the padding are left out.
    """
    x, xn, xh, xw = strides
    panels, starts = integers(a.panels, a.panel_count * PANEL_FIELDS), integers(a.starts, a.parts + 1)
    swapped = n > 2 * q
    inner, outer, y_inner, y_outer = (n, q, a.yn, a.yw) if swapped else (q, n, a.yw, a.yn)
    edges = a.off_w < 0 or a.off_w + extent(a.wide, a.step_w, a.taps_w, a.hop_w) > a.width
    # the columns of a kernel row are one run of channels, unless that would cost products with zeros
    whole = a.hop_w == 1 and c == a.channels and (not edges or c < FEW)
    spans, span = (1, a.taps_w * c) if whole else (a.taps_w, c)
    tick = 0
    for panel in range(starts[part], starts[part + 1]):
        row = panel * PANEL_FIELDS
        vectors, lanes = panels[row + 1], panels[row + 2]
        width = vectors * a.lanes * 4
        for i in range(p):
            for j in range(outer):
                at = y + i * a.yh + j * y_outer + panels[row] * 4
                call_copy(a.copy, at, y_inner, spare + (i * outer + j) * inner * width, width, inner, lanes)
        count = tiles_of(a, vectors, span)
        ticks = count * spans * a.taps_h * (starts[part + 1] - starts[part])
        for i in range(a.taps_h):
            i0, i1 = reached(p0 * a.step_h + a.off_h + i * a.hop_h, a.step_h, p, a.height)
            for j in range(spans):
                j0, j1 = 0, q
                if not whole:
                    j0, j1 = reached(q0 * a.step_w + a.off_w + j * a.hop_w, a.step_w, q, a.width)
                A = x + (i0 * a.step_h + i * a.hop_h) * xh + (j0 * a.step_w + j * a.hop_w) * xw
                B = spare + (i0 * outer * inner + (j0 * inner if swapped else j0)) * width
                C = to + panels[row + 3] * 4 + ((i * a.taps_w + j) * a.channels + c0) * width
                nk, no, sAk, sAo = (n, j1 - j0, xn, a.step_w * xw) if swapped else (j1 - j0, n, a.step_w * xw, xn)
                calls = i1 - i0
                if a.step_h * xh == outer * sAo and no == outer:
                    no, calls = no * calls, 1
                if i1 <= i0 or j1 <= j0:
                    nk, calls = 0, 1
                run_tiles(
                    a, vectors, lanes, span, (A, 4, sAk, sAo, a.step_h * xh),
                    (B, width, inner * width, outer * inner * width), (C, width), (a.zeros, first), (nk, no, calls),
                    NONE, a.channels * width, (wish_x, ticks, wish_y, ticks), tick,
                )  # fmt: skip
                tick += count
