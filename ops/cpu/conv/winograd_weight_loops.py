"""The loops of Winograd convolution that make gradients of weights: tiles of images and of the
outputs' gradients to planes, products of planes, and back.

Tiles, strides and panels are those of `winograd_loops`. Buffers:

    V' [plane][C / lanes][tile][lanes]       transformed inputs
    S  [plane][panel][tile][panel width]     transformed gradients of the outputs
    D  [plane][some C][panel width]          products V' S of one panel
    G  [C][kernel row][kernel column][K]     the gradient, K rounded up to whole vectors
"""

from __future__ import annotations

from typing import Any

from ops.cpu.codegen.kernel import arguments, floats, inlined, integers, kernel, layout
from ops.cpu.conv.transforms import call_collapse, call_transpose
from ops.cpu.conv.winograd_loops import IMAGES, NO_FLOOR, TILES, panel, share, spread_tiles
from ops.cpu.gemm.microkernel import MAX_ROWS, call_tile_ahead
from ops.cpu.team.workspace import LINE

GRADIENT = layout(
    f"{TILES} {IMAGES} spread adjoin collapse load multiply by_channel V Vv Vx V_thread S Sx "
    "S_thread chunk D D_thread "
    "G Gk G_thread fresh"
)
FINISH = layout("transpose lanes C K square G Gk G_thread parts w wk")


@inlined
def multiply_channels(
    a: Any,
    V: int,
    S: int,
    D: int,
    Dx: int,
    count: int,
    c: int,
    depth: int,
    vectors: int,
    columns: int,
) -> None:
    """D = V' S over `count` tiles, for channels c to c + depth and one panel. Each plane prefetches
    the next."""
    rows = integers(a.rows, a.most)[vectors - 1]
    width = vectors * a.lanes * 4
    vector = a.lanes * 4
    table = integers(a.table + (vectors - 1) * 8 * MAX_ROWS, MAX_ROWS)
    calls = (depth + rows - 1) // rows  # approximately
    sP = (width + calls - 1) // calls
    sQ = rows * 4
    for plane in range(a.planes):
        row = call = 0
        while row < depth:
            of = c + row
            run = min(depth - row, a.lanes - of % a.lanes)
            height = (run - 1) // ((run + rows - 1) // rows) + 1
            A = V + plane * a.Vx + of // a.lanes * a.Vv + of % a.lanes * 4
            P = S + (plane + 1) * a.Sx + call * count * sP
            Q = V + (plane + 1) * a.Vx + of // a.lanes * a.Vv + of % a.lanes * 4 * count
            call_tile_ahead(
                table[height - 1],
                A,
                4,
                vector,
                0,
                S + plane * a.Sx,
                width,
                0,
                D + plane * Dx + row * width,
                width,
                a.zero,
                0,
                count,
                1,
                columns,
                P,
                sP,
                Q,
                sQ,
                0,
                NO_FLOOR,
            )
            row = row + height
            call = call + 1


@kernel(GRADIENT)
def winograd_gradient(number: int, size: int, at: Any) -> None:
    """G from x and dy, block of tiles by block. A thread has its own tiles and its own G, or with
    `by_channel` its own channels of one G.

    `load` fills V' and S, `multiply` computes G from them. Each block's sums begin at zero: short
    sums in float32 keep the error low.
    """
    a = arguments(at)
    begin, end = share(a.to_tile - a.from_tile, 8, number, size)
    low = 0
    high = a.C
    if a.by_channel and not a.load:
        begin = 0
        end = a.to_tile - a.from_tile
        low, high = share(a.C, 8, number, size)
    V = a.V + number * a.V_thread
    S = a.S + number * a.S_thread
    D = a.D + number * a.D_thread
    G = a.G + number * a.G_thread
    vector = a.lanes * 4
    vectors_of_all = (a.K + a.lanes - 1) // a.lanes
    units = (end - begin + 7) // 8
    blocks = max((units * 8 + a.block - 1) // a.block, 1)
    for block in range(blocks):
        first = begin + units * block // blocks * 8
        last = min(begin + units * (block + 1) // blocks * 8, end)
        shift = first * a.by_channel
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
                V + shift * vector,
                vector,
                a.Vv,
                a.Vx,
                a.C,
            )
        start = 0
        while start < vectors_of_all:
            vectors = panel(vectors_of_all - start, a.most)
            width = vectors * vector
            column = start * a.lanes
            columns = min(vectors * a.lanes, a.K - column)
            S_panel = S + start * vector * a.block
            Dx = a.chunk * width + LINE
            if a.load:
                spread_tiles(
                    a.adjoin,
                    a,
                    a.y + column * 4,
                    a.yn,
                    a.yh,
                    a.yw,
                    a.OH,
                    a.OW,
                    0,
                    0,
                    a.from_tile + first,
                    a.from_tile + last,
                    S_panel + shift * width,
                    width,
                    vector,
                    a.Sx,
                    columns,
                )
            if a.multiply:
                for c in range(low, high, a.chunk):
                    depth = min(a.chunk, high - c)
                    multiply_channels(
                        a, V, S_panel, D, Dx, last - first, c, depth, vectors, columns
                    )
                    to = G + c * a.r * a.r * a.Gk + column * 4
                    again = not (a.fresh and block == 0)
                    step = a.Gk * again
                    call_collapse(
                        a.collapse,
                        D,
                        Dx,
                        width,
                        vector,
                        to if again else a.zero,
                        a.r * a.r * step,
                        a.r * step,
                        step,
                        to,
                        a.r * a.r * a.Gk,
                        a.r * a.Gk,
                        a.Gk,
                        a.r,
                        a.r,
                        a.sink,
                        depth,
                        columns,
                        NO_FLOOR,
                    )
            start += vectors


@kernel(FINISH)
def winograd_finish(number: int, size: int, at: Any) -> None:
    """dw (K, C, kh, kw) from the sum of `parts` G; threads share the channels."""
    a = arguments(at)
    low, high = share(a.C, 16, number, size)
    low = low * a.square
    high = high * a.square
    count = (high - low) * a.Gk // 4
    total = floats(a.G + low * a.Gk, count)
    for part in range(1, a.parts):
        more = floats(a.G + part * a.G_thread + low * a.Gk, count)
        for i in range(count):
            total[i] += more[i]
    # the outer loop, so that rows of dw are written from their start to their end
    for k in range(0, a.K, a.lanes):
        for row in range(low, high, a.lanes):
            call_transpose(
                a.transpose,
                a.G + row * a.Gk + k * 4,
                a.Gk,
                a.w + k * a.wk + row * 4,
                a.wk,
                min(a.lanes, high - row),
                min(a.lanes, a.K - k),
            )
