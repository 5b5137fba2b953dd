"""Kernels of pooling. Forward, an output pixel reads its window. Backward, an input pixel reads the
outputs whose windows hold it.

Every result is then written once and nothing has to be zeroed. The images of a batch lie as `runs`
of `width` numbers per pixel (one run where a pixel's images are neighbours). Runs are cut into
chunks, narrow enough for the rows that neighbouring windows share to stay in the cache. x and y may
hold bfloat16 numbers; places are int32.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Variable, Vec, Whole

GEOMETRY = "H W OH OW kh kw dh dw ph pw runs width chunk"
IMAGE = "{0} {0}_run {0}_row {0}_column"  # address and strides in bytes

POOL = layout(
    " ".join([IMAGE.format("x"), IMAGE.format("y"), IMAGE.format("place"), GEOMETRY, "shares"]),
    "floor",
)
UNROLLED = 4  # vectors
Pair: TypeAlias = tuple[Variable, Variable]  # the result so far, and its place


def _units(c: Code, rows: Whole, columns: Whole) -> Any:
    """Yield this thread's (row, column, run, first number, end): a share of chunks x rows, with all
    columns and runs of each."""
    first, last = c.share((c.width + c.chunk - 1) // c.chunk * rows)
    for unit in c.loop(first, last):
        start = unit // rows * c.chunk
        end = c.width.least(start + c.chunk)
        for column in c.loop(0, columns):
            for run in c.loop(0, c.runs):
                yield unit % rows, column, run, start, end


def _window(c: Code, index: Whole, axis: str) -> tuple[Whole, Whole]:
    """[first, end) of an output's window, inside the image."""
    start = index * getattr(c, f"d{axis}") - getattr(c, f"p{axis}")
    end = start + getattr(c, f"k{axis}")
    return start.most(0), end.least(c.H if axis == "h" else c.W)


def _outputs(c: Code, index: Whole, axis: str) -> tuple[Whole, Whole]:
    """[first, end) of the outputs whose windows hold this pixel."""
    step = getattr(c, f"d{axis}")
    place = index + getattr(c, f"p{axis}")
    first = (place - getattr(c, f"k{axis}") + step).most(0) // step
    return first, (place // step + 1).least(c.OH if axis == "h" else c.OW)


def _forward(c: Code, start: float, merge: Any, finish: Any) -> None:
    """For every output: call `merge(pixel's vector, variables, pixel's number)` over its window,
    then `finish`, which returns the output."""
    for row, column, run, low, high in _units(c, c.OH, c.OW):
        (top, bottom), (left, right) = _window(c, row, "h"), _window(c, column, "w")
        first = c.counted(top * c.W + left)
        source = c.x + run * c.x_run
        target = c.y + run * c.y_run + row * c.y_row + column * c.y_column
        places = c.place + run * c.place_run + row * c.place_row + column * c.place_column
        for at, masks in c.columns(high, UNROLLED, low):
            found = [(c.variable(c.constant(start)), c.variable(first)) for _ in masks]
            for i in c.loop(top, bottom):
                for j in c.loop(left, right):
                    here = c.counted(i * c.W + j)
                    pixel = source + i * c.x_row + j * c.x_column
                    for k, (mask, pair) in enumerate(zip(masks, found, strict=True)):
                        merge(c.read("x", pixel, at + k * c.lanes * 4, mask), pair, here)
            for k, (mask, pair) in enumerate(zip(masks, found, strict=True)):
                offset = at + k * c.lanes * 4
                share = c.shares + (row * c.OW + column) * 4
                value = finish(pair, places + offset, mask, share)
                c.deliver_to("y", value, target, offset, mask)


def _keep_largest(x: Vec, pair: Pair, here: Vec) -> None:
    """Keep the larger number. The first of equal maxima wins, and NaN wins over all."""
    best, place = pair
    wins = (x > best.get()) | x.is_nan()
    best.set(wins.pick(x, best.get()))
    place.set(wins.pick(here, place.get()))


@generated(POOL)
def max_forward(c: Code) -> None:
    """The largest of each window, and its pixel's number in the plane."""

    def finish(pair: Pair, place_at: Whole, mask: Any, share: Whole) -> Vec:
        c.deliver(pair[1].get(), place_at, mask)
        found: Vec = pair[0].get()
        return found

    _forward(c, -math.inf, _keep_largest, finish)


@generated(POOL)
def max_forward_rectified(c: Code) -> None:
    """The largest of each window or 0, and its pixel's number in the plane, or -1 if it is not
    positive."""

    def finish(pair: Pair, place_at: Whole, mask: Any, share: Whole) -> Vec:
        found = pair[0].get()
        c.deliver((found > 0.0).pick(pair[1].get(), c.counted(c.whole(-1))), place_at, mask)
        largest: Vec = (found < 0.0).pick(c.constant(0), found)
        return largest

    _forward(c, -math.inf, _keep_largest, finish)


def _above(c: Code, value: Vec) -> Vec:
    """The value, or the floor if the value is below it."""
    found: Vec = (value < c.floor).pick(c.floor, value)
    return found


@generated(POOL)
def max_forward_alone(c: Code) -> None:
    """The largest of each window, or the floor."""

    _forward(c, -math.inf, _keep_largest, lambda pair, *_: _above(c, pair[0].get()))


@generated(POOL)
def average_forward(c: Code) -> None:
    """The sum of each window times the window's share, or the floor."""

    def add(x: Vec, pair: Pair, here: Vec) -> None:
        pair[0].set(pair[0].get() + x)

    def finish(pair: Pair, place_at: Whole, mask: Any, share: Whole) -> Vec:
        return _above(c, pair[0].get() * c.spread(share))

    _forward(c, 0.0, add, finish)


def _backward(c: Code, gain: Any) -> None:
    """For every input: add up `gain(output's gradient, its place's address, pixel's number, share,
    mask)` over the windows that hold it.

    x is the gradient that is written, y the one that is read.
    """
    for row, column, run, low, high in _units(c, c.H, c.W):
        (top, bottom), (left, right) = _outputs(c, row, "h"), _outputs(c, column, "w")
        here = c.counted(row * c.W + column)
        target = c.x + run * c.x_run + row * c.x_row + column * c.x_column
        for at, masks in c.columns(high, UNROLLED, low):
            sums = [c.variable(c.constant(0)) for _ in masks]
            for i in c.loop(top, bottom):
                for j in c.loop(left, right):
                    source = c.y + run * c.y_run + i * c.y_row + j * c.y_column
                    place = c.place + run * c.place_run + i * c.place_row + j * c.place_column + at
                    share = c.shares + (i * c.OW + j) * 4
                    for k, (mask, total) in enumerate(zip(masks, sums, strict=True)):
                        offset = k * c.lanes * 4
                        dy = c.read("y", source, at + offset, mask)
                        total.set(total.get() + gain(dy, place + offset, here, share, mask))
            for k, (mask, total) in enumerate(zip(masks, sums, strict=True)):
                c.deliver_to("x", total.get(), target, at + k * c.lanes * 4, mask)


@generated(POOL)
def places_backward(c: Code) -> None:
    """Each output's gradient goes to the pixel that its place names."""

    def gain(dy: Vec, place: Whole, here: Vec, share: Whole, mask: Any) -> Vec:
        chosen: Vec = c.load_places(place, mask).matches(here).pick(dy, c.constant(0))
        return chosen

    _backward(c, gain)


@generated(POOL)
def places_backward_apart(c: Code) -> None:
    """As `places_backward`, for windows that do not overlap and begin at the first pixel: each
    gradient and each place is read once, and written to all pixels up to the next window. It takes
    half the time."""
    for row, column, run, low, high in _units(c, c.OH, c.OW):
        (top, bottom), (left, right) = _to_next(c, row, "h"), _to_next(c, column, "w")
        source = c.y + run * c.y_run + row * c.y_row + column * c.y_column
        place = c.place + run * c.place_run + row * c.place_row + column * c.place_column
        target = c.x + run * c.x_run
        for at, masks in c.columns(high, UNROLLED, low):
            offsets = [at + k * c.lanes * 4 for k in range(len(masks))]
            each = list(zip(offsets, masks, strict=True))
            chosen = [c.load_places(place + offset, mask) for offset, mask in each]
            values = [c.read("y", source, offset, mask) for offset, mask in each]
            for i in c.loop(top, bottom):
                for j in c.loop(left, right):
                    here = c.counted(i * c.W + j)
                    pixel = target + i * c.x_row + j * c.x_column
                    for of, dy, (offset, mask) in zip(chosen, values, each, strict=True):
                        dx = of.matches(here).pick(dy, c.constant(0))
                        c.deliver_to("x", dx, pixel, offset, mask)


def _to_next(c: Code, index: Whole, axis: str) -> tuple[Whole, Whole]:
    """[first, end) of the pixels from an output's window to the next one, or to the image's
    end."""
    step = getattr(c, f"d{axis}")
    start = index * step
    size = c.H if axis == "h" else c.W
    last = (index + 1).equals(c.OH if axis == "h" else c.OW)
    return start, last.pick(size, start + step)


@generated(POOL)
def average_backward(c: Code) -> None:
    """Each output's gradient times its window's share goes to all its pixels."""
    _backward(c, lambda dy, place, here, share, mask: dy * c.spread(share))
