"""The loops of direct convolution that make images: outputs of a forward pass, or inputs of a backward one.

What never lives here: gradients of weights (`correlate`), sizes of blocks (`blocking`), strides of layers (`direct`).
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

FEW_WEIGHTS = 1 << 20  # bytes that stay in the second-level cache


@kernel(layout(GEOMETRY + "bias along", "floor"))
def convolve(number, size, at):  # type: ignore[no-untyped-def]
    """y = max(x * w + bias, floor). Threads share the blocks and, in `parts`, the panels."""
    a = arguments(at)
    part, share, shares = number % a.parts, number // a.parts, size // a.parts
    units = a.groups * -(-a.images // a.block_n) * -(-a.high // a.block_h) * -(-a.wide // a.block_w)
    mine = a.scratch + number * a.scratch_each
    end = units * (share + 1) // shares
    for unit in range(units * share // shares, end):
        g, n0, p0, q0 = corner(a, unit)
        n, p, q = min(a.block_n, a.images - n0), min(a.block_h, a.high - p0), min(a.block_w, a.wide - q0)
        h0, w0 = p0 * a.step_h + a.off_h, q0 * a.step_w + a.off_w
        y = a.y + g * a.y_group + n0 * a.yn + p0 * a.yh + q0 * a.yw
        g1, n1, p1, q1 = corner(a, unit + 1)
        for c0 in range(0, a.channels, a.block_c):
            c = min(a.block_c, a.channels - c0)
            x = a.x + g * a.x_group + c0 * a.xc + n0 * a.xn
            wish = NOTHING
            if a.packed:
                rows, columns = extent(p, a.step_h, a.taps_h, a.hop_h), extent(q, a.step_w, a.taps_w, a.hop_w)
                line = line_bytes(columns * c)
                gather(a, mine, line, x, n, c, h0, rows, w0, columns)
                strides = mine, line, n * line, c * 4
            else:
                strides = x + h0 * a.xh + w0 * a.xw, a.xn, a.xh, a.xw
                if unit + 1 < end:
                    following = a.x + g1 * a.x_group + c0 * a.xc + n1 * a.xn + p1 * a.xh + q1 * a.xw
                    wish = following, n, a.xn, q, a.xw, a.xh, n * p * q, c * 4
            _outputs(a, part, g, c0, c, n, p, q, p0, q0, strides, y, wish)


@helper
def _outputs(a, part, g, c0, c, n, p, q, p0, q0, strides, y, wish):  # type: ignore[no-untyped-def]
    """One block: every panel of this thread's part over all its pixels. Taps in the padding are left out."""
    x, xn, xh, xw = strides
    panels, starts = integers(a.panels, a.panel_count * PANEL_FIELDS), integers(a.starts, a.parts + 1)
    mid, mid_x, mid_y, run, sAr, sCr = q, a.step_w * xw, a.yw, n, xn, a.yn
    if a.along:
        mid, mid_x, mid_y, run, sAr, sCr = n, xn, a.yn, q, a.step_w * xw, a.yw
    first = c0 == 0
    floor = a.floor if c0 + c == a.channels else NONE
    tick = 0
    for panel in range(starts[part], starts[part + 1]):
        row = panel * PANEL_FIELDS
        vectors, lanes = panels[row + 1], panels[row + 2]
        width = vectors * a.lanes * 4
        line = a.taps_w * c * width
        weights = a.w + g * a.w_group + panels[row + 3] * 4 + c0 * a.taps_h * a.taps_w * width
        bias = a.zeros if a.bias == 0 else a.bias + g * a.y_group + panels[row] * 4
        ticks = tiles_of(a, vectors, run) * p * mid
        wishes = wish, ticks * (starts[part + 1] - starts[part]), _next_panel(a, part, panel, g, c0, c), ticks
        for i in range(p):
            t0, t1 = reached((p0 + i) * a.step_h + a.off_h, a.hop_h, a.taps_h, a.height)
            for j in range(mid):
                u0, u1 = 0, a.taps_w
                if not a.along:
                    u0, u1 = reached((q0 + j) * a.step_w + a.off_w, a.hop_w, a.taps_w, a.width)
                A = x + (i * a.step_h + t0 * a.hop_h) * xh + j * mid_x + u0 * a.hop_w * xw
                B = weights + t0 * line + u0 * c * width
                C = y + i * a.yh + j * mid_y + panels[row] * 4
                counts, sAo, sBo = ((u1 - u0) * c, t1 - t0, 1), a.hop_h * xh, line
                if a.hop_w != 1:
                    counts, sAo, sBo = (c, u1 - u0, max(1, t1 - t0)), a.hop_w * xw, c * width
                if t1 <= t0 or u1 <= u0:
                    counts = 0, 0, 1
                run_tiles(
                    a, vectors, lanes, run, (A, sAr, 4, sAo, a.hop_h * xh), (B, width, sBo, line), (C, sCr),
                    (bias, first), counts, floor, mid_y, wishes, tick,
                )  # fmt: skip
                tick += ticks // (p * mid)


@helper
def _next_panel(a, part, panel, g, c0, c):  # type: ignore[no-untyped-def]
    """The region of the weights that come after those of this panel, if they do not all stay near."""
    panels, starts = integers(a.panels, a.panel_count * PANEL_FIELDS), integers(a.starts, a.parts + 1)
    if a.w_group <= FEW_WEIGHTS:
        return NOTHING
    following, from_ = panel + 1, c0
    if following == starts[part + 1]:
        following, from_ = starts[part], (c0 + c) % a.channels
    row, taps = following * PANEL_FIELDS, a.taps_h * a.taps_w
    width = panels[row + 1] * a.lanes * 4
    depth = min(a.block_c, a.channels - from_) * taps
    return a.w + g * a.w_group + panels[row + 3] * 4 + from_ * taps * width, depth, width, 1, 0, 0, depth, width
