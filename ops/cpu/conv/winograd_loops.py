"""The loops of Winograd convolution, forward: tiles of images to planes, products of planes, and
back.

A tile is m x m outputs of one image; tile t is tile position t // N of image t % N. Strides and
addresses are in bytes. Buffers, with `lanes` the width of a vector and panels of up to `vectors` of
them:

    V  [plane][tile][C]                      transformed inputs
    U  [panel][plane][C][panel width]        transformed weights, all or those of a group of panels
    M  [panel][plane][tile][panel width]     products of a group of panels

The loops that make the gradient of the weights are in `winograd_weight_loops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.codegen.kernel import arguments, inlined, integers, kernel, layout
from ops.cpu.conv.transforms import call_collapse, call_spread, call_transpose
from ops.cpu.gemm.microkernel import MAX_ROWS, call_tile_ahead
from ops.cpu.team.workspace import LINE

NO_FLOOR = np.float32(-np.inf)

TILES = "table rows most lanes zero sink sink_thread N C K from_tile to_tile block across"
IMAGES = "x xn xh xw H W top left y yn yh yw OH OW m r planes"
FORWARD = layout(
    f"{TILES} {IMAGES} spread weigh collapse transpose load pack multiply by_column V Vt Vx "
    "V_thread U U_thread kept "
    "group M M_thread w wk wc w_origin w_row w_column turned turned_thread bias",
    "floor",
)


@inlined
def share(count: int, unit: int, number: int, size: int) -> Any:
    """The start and the end of thread `number` of `size` in `count` items that are shared in whole
    units."""
    units = (count + unit - 1) // unit
    return units * number // size * unit, min(units * (number + 1) // size * unit, count)


@inlined
def panel(left: int, most: int) -> int:
    """Vectors of the next panel if `left` are left: as many as possible, but 4 are 2 + 2."""
    return most if left > most + 1 else (left if left <= most else (left + 1) // 2)


@inlined
def spread_tiles(
    code: int,
    a: Any,
    x: int,
    sn: int,
    sh: int,
    sw: int,
    H: int,
    W: int,
    top: int,
    left: int,
    first: int,
    last: int,
    target: int,
    sT: int,
    sV: int,
    sX: int,
    channels: int,
) -> None:
    """Transform tiles first to last (not included) of an image into planes at `target`."""
    tile = first
    while tile < last:
        place = tile // a.N
        n = tile % a.N
        images = min(a.N - n, last - tile)
        h = place // a.across * a.m - top
        w = place % a.across * a.m - left
        source = x + n * sn + h * sh + w * sw
        call_spread(
            code,
            source,
            sn,
            sh,
            sw,
            -h,
            H - h,
            -w,
            W - w,
            a.zero,
            target + (tile - first) * sT,
            sT,
            sV,
            sX,
            images,
            channels,
        )
        tile += images


@inlined
def pack_panel(
    a: Any, turned: int, low: int, high: int, column: int, vectors: int, U: int, Ux: int
) -> None:
    """Transform the weights from channels low..high to the columns of one panel; U belongs to
    channel `low`."""
    square = a.r * a.r
    vector = a.lanes * 4
    width = vectors * vector
    parts = (high - low + 15) // 16
    # the numbers of all channels, or of one, lie side by side: they become rows of `lanes` columns
    side_by_side = a.wc == square * 4
    for part in range(parts * vectors):  # in the order in which the weights lie
        v, c = (
            (part // parts, low + part % parts * 16)
            if side_by_side
            else (part % vectors, low + part // vectors * 16)
        )
        count = min(16, high - c)
        k = column + v * a.lanes
        columns = min(a.lanes, a.K - k)
        length = square * count if side_by_side else square
        for run in range(square * count // length):
            source = a.w + k * a.wk + (c + run) * a.wc
            for at in range(0, length, a.lanes):
                call_transpose(
                    a.transpose,
                    source + at * 4,
                    a.wk,
                    turned + (run * length + at) * vector,
                    vector,
                    columns,
                    min(a.lanes, length - at),
                )
        call_spread(
            a.weigh,
            turned + a.w_origin,
            square * vector,
            a.w_row,
            a.w_column,
            0,
            a.r,
            0,
            a.r,
            a.zero,
            U + (c - low) * width + v * vector,
            width,
            0,
            Ux,
            count,
            columns,
        )


@inlined
def pack_group(a: Any, turned: int, U: int, left: int, right: int, low: int, high: int) -> None:
    """Transform the weights of channels low..high for the panels of vectors left..right."""
    start = left
    while start < right:
        vectors = panel(right - start, a.most)
        width = vectors * a.lanes * 4
        at = U + (start - left) * (a.lanes * a.C * 4 + LINE) * a.planes + low * width
        pack_panel(a, turned, low, high, start * a.lanes, vectors, at, a.C * width + LINE)
        start += vectors


@inlined
def multiply_group(a: Any, V: int, U: int, M: int, count: int, left: int, right: int) -> None:
    """M = V U for the panels of vectors left..right, plane by plane: the panels of one plane fit
    into the cache.

    Each panel prefetches the weights of the next, and all panels of a plane prefetch the inputs of
    the next plane.
    """
    Ug = (a.lanes * a.C * 4 + LINE) * a.planes
    Mg = (a.lanes * a.block * 4 + LINE) * a.planes
    for plane in range(a.planes):
        start = left
        while start < right:
            vectors = panel(right - start, a.most)
            width = vectors * a.lanes * 4
            columns = min(vectors * a.lanes, a.K - start * a.lanes)
            rows = integers(a.rows, a.most)[vectors - 1]
            table = integers(a.table + (vectors - 1) * 8 * MAX_ROWS, MAX_ROWS)
            B = U + (start - left) * Ug
            to = M + (start - left) * Mg + plane * (a.block * width + LINE)
            calls = (count + rows - 1) // rows
            upon = start + vectors
            around = upon >= right
            next_start = left if around else upon
            next_plane = plane + around
            next_width = panel(right - next_start, a.most) * a.lanes * 4
            P = U + (next_start - left) * Ug + next_plane * (a.C * next_width + LINE)
            sP = (next_width + calls - 1) // calls
            Q = V + (plane + 1) * a.Vx + count * (start - left) // (right - left) * a.Vt
            sQ = count * a.Vt * vectors // ((right - left) * calls * a.C) + 1
            for call in range(calls):
                row = count * call // calls
                height = count * (call + 1) // calls - row
                C = to + row * width
                ahead = call * a.C
                call_tile_ahead(
                    table[height - 1],
                    V + plane * a.Vx + row * a.Vt,
                    a.Vt,
                    4,
                    0,
                    B + plane * (a.C * width + LINE),
                    width,
                    0,
                    C,
                    width,
                    a.zero,
                    0,
                    a.C,
                    1,
                    columns,
                    P + ahead * sP,
                    sP,
                    Q + ahead * sQ,
                    sQ,
                    0,
                    NO_FLOOR,
                )
            start = upon


@inlined
def collapse_group(a: Any, M: int, first: int, last: int, left: int, right: int, sink: int) -> None:
    """Outputs of tiles first to last (not included) from the products of the panels of vectors
    left..right."""
    tile = first
    while tile < last:
        place = tile // a.N
        n = tile % a.N
        images = min(a.N - n, last - tile)
        h = place // a.across * a.m
        w = place % a.across * a.m
        y = a.y + n * a.yn + h * a.yh + w * a.yw
        start = left
        while start < right:
            vectors = panel(right - start, a.most)
            width = vectors * a.lanes * 4
            column = start * a.lanes
            source = (
                M
                + ((start - left) * (a.lanes * a.block * 4 + LINE)) * a.planes
                + (tile - first) * width
            )
            call_collapse(
                a.collapse,
                source,
                a.block * width + LINE,
                width,
                a.lanes * 4,
                a.bias + column * 4,
                0,
                0,
                0,
                y + column * 4,
                a.yn,
                a.yh,
                a.yw,
                a.OH - h,
                a.OW - w,
                sink,
                images,
                min(vectors * a.lanes, a.K - column),
                a.floor,
            )
            start += vectors
        tile += images


@kernel(FORWARD)
def winograd_forward(number: int, size: int, at: Any) -> None:
    """y from x, block of tiles by block. A thread has its own tiles, or with `by_column` its own
    columns of y.

    `load` fills V, `multiply` computes y from it. `pack` transforms weights: for the present group
    of panels or, if they are `kept`, for later calls; then the threads share the channels.
    """
    a = arguments(at)
    begin, end = share(a.to_tile - a.from_tile, 8, number, size)
    left = 0
    right = (a.K + a.lanes - 1) // a.lanes
    low = 0
    high = a.C
    if a.by_column and not a.load:
        begin = 0
        end = a.to_tile - a.from_tile
        left = right * number // size
        right = right * (number + 1) // size
    if a.kept and a.pack:
        low, high = share(a.C, 16, number, size)
        begin = 0
        end = 1
    V = a.V + number * a.V_thread
    M = a.M + number * a.M_thread
    U = a.U + number * a.U_thread
    sink = a.sink + number * a.sink_thread
    turned = a.turned + number * a.turned_thread
    units = (end - begin + 7) // 8
    blocks = (units * 8 + a.block - 1) // a.block
    for block in range(blocks):
        first = begin + units * block // blocks * 8
        last = min(begin + units * (block + 1) // blocks * 8, end)
        V_block = V + first * a.Vt * a.by_column
        if a.load:
            spread_tiles(
                a.spread,
                a,
                a.x,
                a.xn,
                a.xh,
                a.xw,
                a.H,
                a.W,
                a.top,
                a.left,
                a.from_tile + first,
                a.from_tile + last,
                V_block,
                a.Vt,
                4 * a.lanes,
                a.Vx,
                a.C,
            )
        if not (a.multiply or a.pack):
            continue
        for start in range(left, right, a.group):
            stop = min(start + a.group, right)
            U_group = U + start * (a.lanes * a.C * 4 + LINE) * a.planes * a.kept
            if a.pack:
                pack_group(a, turned, U_group, start, stop, low, high)
            if a.multiply:
                multiply_group(a, V_block, U_group, M, last - first, start, stop)
                collapse_group(a, M, a.from_tile + first, a.from_tile + last, start, stop, sink)
