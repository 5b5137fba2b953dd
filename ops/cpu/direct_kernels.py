"""The loops of direct convolution around the micro-kernel: `convolve` for outputs and inputs, `correlate` for weights.

Both walk over blocks (group, images, rows, columns). For a block the part of x that it reads is copied, with its padding
as zeros, into a dense [row][image][column][channel] of the thread's own, so that one call of the micro-kernel sums over
all taps and meets no edge; where there is one tap, x may be read in place (`packed` 0). Output (p, q) reads x at
p * step + off + tap * hop. What never lives here: sizes of blocks (`blocking`), strides of layers (`direct`).
"""

from __future__ import annotations

import numpy as np

from ops.cpu.kernel import arguments, floats, integers, kernel, layout
from ops.cpu.microkernel import MAX_ROWS, call_tile
from ops.cpu.pack import PANEL_FIELDS, helper
from ops.cpu.permute import call_copy

GEOMETRY = (
    "x xn xc xh xw y yn yh yw w scratch scratch_each images height width channels high wide groups x_group y_group "
    "w_group step_h step_w off_h off_w hop_h hop_w taps_h taps_w block_n block_h block_w block_c packed "
    "panels panel_count starts parts table rows lanes zeros copy "
)
CONVOLVE = layout(GEOMETRY + "bias along", "floor")
CORRELATE = layout(GEOMETRY + "channel_parts w_part")
NONE = np.float32(-np.inf)


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
def _run(a, vectors, A, sAr, sAk, sAo, from_, B, sBk, sBo, beside, C, sCr, I, sIr, run, nk, no, calls, lanes, floor):  # type: ignore[no-untyped-def]
    """A run of rows in tiles of nearly equal height, each the sum of `calls` calls, `from_` apart in A, `beside` in B."""
    most = integers(a.rows, 8)[vectors - 1]
    table = integers(a.table, 8 * MAX_ROWS)
    count = -(-run // most)
    low = run // count
    more = run - low * count
    for tile in range(count):
        rows = low + 1 if tile < more else low
        code = table[(vectors - 1) * MAX_ROWS + rows - 1]
        start, stride = I, sIr
        for call in range(calls):
            least = floor if call == calls - 1 else NONE
            call_tile(
                code, A + call * from_, sAr, sAk, sAo, B + call * beside, sBk, sBo, C, sCr, start, stride, nk, no,
                lanes, least,
            )  # fmt: skip
            start, stride = C, sCr
        A += rows * sAr
        C += rows * sCr
        I += rows * sIr


@helper
def _reached(first, hop, taps, size):  # type: ignore[no-untyped-def]
    """The taps [low, high) whose pixel first + tap * hop lies in [0, size)."""
    return max(0, -(first // hop)), max(0, min(taps, (size - 1 - first) // hop + 1))


@kernel(CONVOLVE)
def convolve(number, size, at):  # type: ignore[no-untyped-def]
    """y = max(x * w + bias, floor). Threads share the blocks and, in `parts`, the panels."""
    a = arguments(at)
    part, share, shares = number % a.parts, number // a.parts, size // a.parts
    tall, broad, many = -(-a.high // a.block_h), -(-a.wide // a.block_w), -(-a.images // a.block_n)
    units = a.groups * many * tall * broad
    mine = a.scratch + number * a.scratch_each
    for unit in range(units * share // shares, units * (share + 1) // shares):
        q0, rest = unit % broad * a.block_w, unit // broad
        p0, rest = rest % tall * a.block_h, rest // tall
        n0, g = rest % many * a.block_n, rest // many
        n, p, q = min(a.block_n, a.images - n0), min(a.block_h, a.high - p0), min(a.block_w, a.wide - q0)
        h0, w0 = p0 * a.step_h + a.off_h, q0 * a.step_w + a.off_w
        y = a.y + g * a.y_group + n0 * a.yn + p0 * a.yh + q0 * a.yw
        for c0 in range(0, a.channels, a.block_c):
            c = min(a.block_c, a.channels - c0)
            x = a.x + g * a.x_group + c0 * a.xc + n0 * a.xn
            if a.packed:
                rows, columns = (
                    (p - 1) * a.step_h + (a.taps_h - 1) * a.hop_h + 1,
                    (q - 1) * a.step_w + (a.taps_w - 1) * a.hop_w + 1,
                )
                line = line_bytes(columns * c)
                gather(a, mine, line, x, n, c, h0, rows, w0, columns)
                _outputs(a, part, g, c0, c, n, p, q, p0, q0, mine, line, n * line, c * 4, y)
            else:
                _outputs(a, part, g, c0, c, n, p, q, p0, q0, x + h0 * a.xh + w0 * a.xw, a.xn, a.xh, a.xw, y)


@helper
def _outputs(a, part, g, c0, c, n, p, q, p0, q0, x, xn, xh, xw, y):  # type: ignore[no-untyped-def]
    """One block: every panel of this thread's part over all its pixels. Taps in the padding are left out."""
    panels, starts = integers(a.panels, a.panel_count * PANEL_FIELDS), integers(a.starts, a.parts + 1)
    mid, mid_x, mid_y, run, sAr, sCr = q, a.step_w * xw, a.yw, n, xn, a.yn
    if a.along:
        mid, mid_x, mid_y, run, sAr, sCr = n, xn, a.yn, q, a.step_w * xw, a.yw
    first, last = c0 == 0, c0 + c == a.channels
    floor = a.floor if last else NONE
    for panel in range(starts[part], starts[part + 1]):
        row = panel * PANEL_FIELDS
        vectors, lanes = panels[row + 1], panels[row + 2]
        width = vectors * a.lanes * 4
        line = a.taps_w * c * width
        weights = a.w + g * a.w_group + panels[row + 3] * 4 + c0 * a.taps_h * a.taps_w * width
        bias = a.zeros if a.bias == 0 else a.bias + g * a.y_group + panels[row] * 4
        for i in range(p):
            t0, t1 = _reached((p0 + i) * a.step_h + a.off_h, a.hop_h, a.taps_h, a.height)
            for j in range(mid):
                u0, u1 = 0, a.taps_w
                if not a.along:
                    u0, u1 = _reached((q0 + j) * a.step_w + a.off_w, a.hop_w, a.taps_w, a.width)
                A = x + (i * a.step_h + t0 * a.hop_h) * xh + j * mid_x + u0 * a.hop_w * xw
                B = weights + t0 * line + u0 * c * width
                C = y + i * a.yh + j * mid_y + panels[row] * 4
                nk, no, sAo, sBo, calls = (u1 - u0) * c, t1 - t0, a.hop_h * xh, line, 1
                if a.hop_w != 1:
                    nk, no, sAo, sBo, calls = c, u1 - u0, a.hop_w * xw, c * width, max(1, t1 - t0)
                if t1 <= t0 or u1 <= u0:
                    nk = 0
                start, stride = (bias, 0) if first else (C, sCr)
                _run(
                    a, vectors, A, sAr, 4, sAo, a.hop_h * xh, B, width, sBo, line, C, sCr, start, stride, run, nk, no,
                    calls, lanes, floor,
                )  # fmt: skip


@kernel(CORRELATE)
def correlate(number, size, at):  # type: ignore[no-untyped-def]
    """Sums of x times y into [part][group][panel][tap][channel][lane]. Threads share panels, channels and, last, pixels."""
    a = arguments(at)
    part, rest = number % a.parts, number // a.parts
    channel_part, share = rest % a.channel_parts, rest // a.channel_parts
    shares = size // (a.parts * a.channel_parts)
    tall, broad, many = -(-a.high // a.block_h), -(-a.wide // a.block_w), -(-a.images // a.block_n)
    units = many * tall * broad
    mine = a.scratch + number * a.scratch_each
    low, high = a.channels * channel_part // a.channel_parts, a.channels * (channel_part + 1) // a.channel_parts
    for g in range(a.groups):
        for unit in range(units * share // shares, units * (share + 1) // shares):
            first = unit == units * share // shares
            q0, rest = unit % broad * a.block_w, unit // broad
            p0, n0 = rest % tall * a.block_h, rest // tall * a.block_n
            n, p, q = min(a.block_n, a.images - n0), min(a.block_h, a.high - p0), min(a.block_w, a.wide - q0)
            h0, w0 = p0 * a.step_h + a.off_h, q0 * a.step_w + a.off_w
            y = a.y + g * a.y_group + n0 * a.yn + p0 * a.yh + q0 * a.yw
            to = a.w + share * a.w_part + g * a.w_group
            for c0 in range(low, high, a.block_c):
                c = min(a.block_c, high - c0)
                x = a.x + g * a.x_group + c0 * a.xc + n0 * a.xn
                if a.packed:
                    rows, columns = (
                        (p - 1) * a.step_h + (a.taps_h - 1) * a.hop_h + 1,
                        (q - 1) * a.step_w + (a.taps_w - 1) * a.hop_w + 1,
                    )
                    line = line_bytes(columns * c)
                    gather(a, mine, line, x, n, c, h0, rows, w0, columns)
                    _gradients(
                        a,
                        part,
                        c0,
                        c,
                        n,
                        p,
                        q,
                        p0,
                        q0,
                        mine,
                        line,
                        n * line,
                        c * 4,
                        y,
                        to,
                        mine + rows * n * line,
                        first,
                    )
                else:
                    _gradients(
                        a, part, c0, c, n, p, q, p0, q0, x + h0 * a.xh + w0 * a.xw, a.xn, a.xh, a.xw, y, to, mine, first
                    )


@helper
def _gradients(a, part, c0, c, n, p, q, p0, q0, x, xn, xh, xw, y, to, spare, first):  # type: ignore[no-untyped-def]
    """One block: every panel of this thread's part, packed into `spare`, against every tap and channel.

    Inner and outer sums are columns and images; pixels that a tap finds in the padding are left out.
    """
    panels, starts = integers(a.panels, a.panel_count * PANEL_FIELDS), integers(a.starts, a.parts + 1)
    swapped = n > 2 * q
    inner, outer, y_inner, y_outer = (n, q, a.yn, a.yw) if swapped else (q, n, a.yw, a.yn)
    edges = a.off_w < 0 or a.off_w + (a.wide - 1) * a.step_w + (a.taps_w - 1) * a.hop_w >= a.width
    # the columns of a kernel row are one run of channels, unless that would cost products with zeros
    whole = a.hop_w == 1 and c == a.channels and (not edges or c < 12)
    spans, span = (1, a.taps_w * c) if whole else (a.taps_w, c)
    for panel in range(starts[part], starts[part + 1]):
        row = panel * PANEL_FIELDS
        vectors, lanes = panels[row + 1], panels[row + 2]
        width = vectors * a.lanes * 4
        for i in range(p):
            for j in range(outer):
                at = y + i * a.yh + j * y_outer + panels[row] * 4
                call_copy(a.copy, at, y_inner, spare + (i * outer + j) * inner * width, width, inner, lanes)
        for i in range(a.taps_h):
            i0, i1 = _reached(p0 * a.step_h + a.off_h + i * a.hop_h, a.step_h, p, a.height)
            for j in range(spans):
                j0, j1 = 0, q
                if not whole:
                    j0, j1 = _reached(q0 * a.step_w + a.off_w + j * a.hop_w, a.step_w, q, a.width)
                A = x + (i0 * a.step_h + i * a.hop_h) * xh + (j0 * a.step_w + j * a.hop_w) * xw
                B = spare + (i0 * outer * inner + (j0 * inner if swapped else j0)) * width
                C = to + panels[row + 3] * 4 + ((i * a.taps_w + j) * a.channels + c0) * width
                nk, no, sAk, sAo = (n, j1 - j0, xn, a.step_w * xw) if swapped else (j1 - j0, n, a.step_w * xw, xn)
                calls = i1 - i0
                if a.step_h * xh == outer * sAo and no == outer:
                    no, calls = no * calls, 1
                if i1 <= i0 or j1 <= j0:
                    nk, calls = 0, 1
                start, stride = (a.zeros, 0) if first else (C, width)
                _run(
                    a, vectors, A, 4, sAk, sAo, a.step_h * xh, B, width, inner * width, outer * inner * width, C, width,
                    start, stride, span, nk, no, calls, lanes, NONE,
                )  # fmt: skip
