"""Images to the rows of a dense layer and back: (pixels, channels) of each image transposed, by
square blocks."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.ir_tools import I32
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, address
from ops.errors import Array, Shape


@generated(layout("x x_image x_row y y_image y_row images high wide"))
def turn(c: Code) -> None:
    """y[n, k, r] = x[n, r, k] for r < high, k < wide; both have their last axis side by side."""
    bands = (c.wide + (c.lanes - 1)) // c.lanes
    first, last = c.share(c.images * bands)
    for unit in c.loop(first, last):
        image = unit // bands
        column = unit % bands * c.lanes
        x = c.x + image * c.x_image + column * 4
        y = c.y + image * c.y_image + column * c.y_row
        for row in c.loop(0, c.high, c.lanes):
            _block(c, x + row * c.x_row, c.wide - column, y + row * 4, c.high - row)


def _block(c: Code, x: Whole, columns: Whole, y: Whole, rows: Whole) -> None:
    """Transpose one square block, or the part of it that exists; nothing beyond is touched."""
    whole = (rows.least(columns) < c.lanes).pick(0, 1)
    with c.when(whole.equals(1)):
        _turned(c, x, y, [None] * c.lanes, [None] * c.lanes)
    with c.when(whole.equals(0)):
        within, out = ([c.v.mask((c.whole(k) < b).pick(a, 0).value) for k in range(c.lanes)]
                       for a, b in ((columns, rows), (rows, columns)))  # fmt: skip
        _turned(c, x, y, within, out)


def _turned(c: Code, x: Whole, y: Whole, within: list[Any], out: list[Any]) -> None:
    vectors = [c.load(x + c.x_row * k, mask) for k, mask in enumerate(within)]
    for k, (vector, mask) in enumerate(zip(transposed(c, vectors), out, strict=True)):
        c.store(vector, y + c.y_row * k, mask)


def transposed(c: Code, rows: list[Vec]) -> list[Vec]:
    """A square of vectors, transposed: neighbours at distance 1, 2, 4, ... exchange their
    halves."""
    values = [row.value for row in rows]
    distance = 1
    while distance < c.lanes:
        for low in range(c.lanes):
            if not low & distance:
                pair = values[low], values[low + distance]
                values[low], values[low + distance] = (
                    _exchanged(c, *pair, distance, half) for half in (0, 1)
                )
        distance *= 2
    return [Vec(c.b, value) for value in values]


def _exchanged(c: Code, low: ir.Value, high: ir.Value, distance: int, half: int) -> ir.Value:
    """Lanes of `low` and of `high` in turn, `distance` of each: the even runs of both (half 0), or
    the odd ones."""
    picks = []
    for lane in range(c.lanes):
        start = lane & ~distance | (distance if half else 0)
        picks.append(start + (c.lanes if lane & distance else 0))
    return c.b.shuffle_vector(low, high, ir.Constant(ir.VectorType(I32, c.lanes), picks))


class Rearrangement(Fast):
    """`flatten` and `unflatten` of images with channels side by side."""

    def flatten(self, x: Array, out: Array | None = None) -> Array:
        if not _pixels(x):
            return super().flatten(x, out)
        images = x.shape[0]
        channels = x.shape[1]
        pixels = x.shape[2] * x.shape[3]
        step = _step(x)
        y = self.empty((images, channels * pixels)) if out is None else out
        if not _table(y, images, channels * pixels) or not y.flags.writeable:
            return super().flatten(x, out)
        block = turn.block(
            x=address(x),
            x_image=x.strides[0],
            x_row=step,
            y=address(y),
            y_image=y.strides[0],
            y_row=pixels * 4,
            images=images,
            high=pixels,
            wide=channels,
        )
        self.team.run(turn, block)
        return y

    def unflatten(self, dy: Array, in_shape: Shape, out: Array | None = None) -> Array:
        if len(in_shape) != 4 or dy.ndim != 2 or dy.dtype != F32:
            self.team.spoil()
            return super().unflatten(dy, in_shape, out)
        dx = self.images_like(tuple(in_shape), out)
        images = in_shape[0]
        channels = in_shape[1]
        pixels = in_shape[2] * in_shape[3]
        fits = dx.shape == tuple(in_shape) and _pixels(dx) and dx.flags.writeable
        if not fits or not _table(dy, images, channels * pixels):
            self.team.spoil()
            return super().unflatten(dy, in_shape, out)
        block = turn.block(
            x=address(dy),
            x_image=dy.strides[0],
            x_row=pixels * 4,
            y=address(dx),
            y_image=dx.strides[0],
            y_row=_step(dx),
            images=images,
            high=channels,
            wide=pixels,
        )
        self.team.run(turn, block)
        return dx


def _pixels(x: Array) -> bool:
    """Whether x is float32 images whose pixels are evenly spaced, channels side by side."""
    if x.ndim != 4 or x.dtype != F32 or (x.strides[1] != 4 and x.shape[1] != 1):
        return False
    return 1 in x.shape[2:] or x.strides[2] == x.strides[3] * x.shape[3]


def _step(x: Array) -> int:
    """Bytes from pixel to pixel."""
    return x.strides[3] if x.shape[3] != 1 else x.strides[2]


def _table(x: Array, rows: int, columns: int) -> bool:
    """Whether x is float32 (rows, columns) with the elements of a row side by side."""
    return x.shape == (rows, columns) and x.dtype == F32 and (x.strides[1] == 4 or columns == 1)
