"""Kernels that sum over rows of channels: x, or x and x * y, or the moments of x.

Each thread sums its rows in float32, SPAN rows at a time, and adds each of these sums to its own
float64 sums. So the error stays that of SPAN additions, however many rows there are. The threads'
sums are then added in order, so a result repeats to the last bit. Moments are taken about a point
near the mean: the mean of the thread's first SPAN rows. So the variance does not cancel away: Chan,
Golub and LeVeque (1983).

The arrays that are summed hold float32 or bfloat16 numbers. The sums are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ops.cpu.codegen.code import Code, Generated, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.elementwise.activation import rectified_back

SPAN = 128  # rows
BUNCH = 8  # rows read together

# A thread's scratch: four rows of `width` numbers, float64 sums, float64 sums, float32 sums,
# float32 sums
BYTES_PER_NUMBER = 8 + 8 + 4 + 4

SUMS = layout("x sx y sy rows channels width sums")
CENTRED = layout("x sx rows channels width sums counts points")
THROUGH = "x sx y sy rows channels width sums mean factor beta"
TOTALS = layout("channels width threads sums first second", "factor")
MOMENTS = layout("channels width threads sums counts points mean variance")


@generated(SUMS)
def sum_rows(c: Code) -> None:
    """Sums of x."""
    first, last = c.share(c.rows)
    _sums(c, first, last, lambda row, at, mask: [c.read("x", c.x + row * c.sx, at, mask)], 1)


@generated(SUMS)
def sum_products(c: Code) -> None:
    """Sums of x and of x * y."""
    first, last = c.share(c.rows)

    def terms(row: Whole, at: Whole, mask: Any) -> list[Vec]:
        x = c.read("x", c.x + row * c.sx, at, mask)
        return [x, x * c.read("y", c.y + row * c.sy, at, mask)]

    _sums(c, first, last, terms, 2)


def sums_through(kind: str, backward: Callable[..., Vec], numbers: str) -> Generated:
    """A kernel of the sums of g and of g * (y - mean), where g = backward(code, x, z, *numbers) and
    z = (y - mean) * factor + beta."""

    def write(c: Code) -> None:
        given = [getattr(c, name) for name in numbers.split()]
        first, last = c.share(c.rows)

        def terms(row: Whole, at: Whole, mask: Any) -> list[Vec]:
            away = c.read("y", c.y + row * c.sy, at, mask) - c.load(c.mean + at, mask)
            z = away * c.load(c.factor + at, mask) + c.load(c.beta + at, mask)
            g = backward(c, c.read("x", c.x + row * c.sx, at, mask), z, *given)
            return [g, g * away]

        _sums(c, first, last, terms, 2)

    return Generated(f"sum_{kind}", layout(THROUGH, numbers), write)


def rectified_sums(count: int) -> Generated:
    """A kernel that writes g, the sum of `count` gradients where y > 0, else 0, and takes the sums
    of g and of g * (x - mean)."""
    gradients = [f"g{k}" for k in range(count)]

    def write(c: Code) -> None:
        first, last = c.share(c.rows)

        def terms(row: Whole, at: Whole, mask: Any) -> list[Vec]:
            def read(name: str) -> Vec:
                return c.read(name, getattr(c, name) + row * getattr(c, f"s{name}"), at, mask)

            total = read("g0") if count == 1 else read("g0").plus(read("g1"))
            g = rectified_back(c, total, read("y"))
            return [g, g * (read("x") - c.load(c.mean + at, mask))]

        def write_first(row: Whole, at: Whole, mask: Any, found: list[Vec]) -> None:
            c.deliver_to("out", found[0], c.out + row * c.sout, at, mask)

        _sums(c, first, last, terms, 2, write_first)

    arrays = ["out", *gradients, "y", "x"]
    names = [*arrays, *(f"s{name}" for name in arrays), "rows channels width sums mean"]
    return Generated(f"rectified_sums_{count}", layout(" ".join(names)), write)


@generated(CENTRED)
def sum_moments(c: Code) -> None:
    """Write the sums of x - p and of its square, p a point for each channel; also p and the number
    of rows."""
    first, last = c.share(c.rows)
    points = c.points + c.number * c.width * 4
    near = last.least(first + SPAN)
    _sums(c, first, near, lambda row, at, mask: [c.read("x", c.x + row * c.sx, at, mask)], 1)
    sums = c.sums + c.number * c.width * BYTES_PER_NUMBER
    count = c.widened((near - first).most(1))
    for at, _ in c.columns(c.width, 1):
        c.store(c.narrowed(c.load_wide(sums + at * 2) / count), points + at)
    c.put(c.counts + c.number * 8, last - first)

    def terms(row: Whole, at: Whole, mask: Any) -> list[Vec]:
        x = c.read("x", c.x + row * c.sx, at, mask) - c.load(points + at)
        return [x, x * x]

    _sums(c, first, last, terms, 2)


def _sums(c: Code, first: Whole, last: Whole, terms: Any, kinds: int, write: Any = None) -> None:
    """This thread's float64 sums of `terms(row, offset, mask)` over its rows. `write(row, offset,
    mask, terms)` may write results; the terms of a bunch of rows are read before."""
    mine = c.sums + c.number * c.width * BYTES_PER_NUMBER
    wide = [mine + c.width * 8 * k for k in range(kinds)]
    narrow = [mine + c.width * (16 + 4 * k) for k in range(kinds)]
    zero = c.constant(0)
    for at, _ in c.columns(c.width, 1):
        for sums in wide:
            c.store_wide(c.widened(zero), sums + at * 2)
    for span in c.loop(first, last, SPAN):
        for at, _ in c.columns(c.width, 1):
            for sums in narrow:
                c.store(zero, sums + at)
        for count, row in c.bunches(span, last.least(span + SPAN), BUNCH):
            for at, masks in c.columns(c.channels, 2):
                for k, mask in enumerate(masks):
                    place = at + k * c.lanes * 4
                    rows = [terms(row + r, place, mask) for r in range(count)]
                    for r, found in enumerate(rows if write else ()):
                        write(row + r, place, mask, found)
                    for kind, sums in enumerate(narrow):
                        total = _tree([row_terms[kind] for row_terms in rows])
                        c.store(c.load(sums + place) + total, sums + place)
        for at, _ in c.columns(c.width, 1):
            for sums, more in zip(wide, narrow, strict=True):
                c.store_wide(
                    c.load_wide(sums + at * 2) + c.widened(c.load(more + at)), sums + at * 2
                )


def _tree(values: list[Vec]) -> Vec:
    """The sum of the values, neighbours first: a short chain, and a small error."""
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


@generated(TOTALS)
def total_sums(c: Code) -> None:
    """first (and second, unless its address is 0) = factor * the threads' sums."""
    for at, masks in _own_columns(c):
        for k, target in enumerate((c.first, c.second)):
            with c.when(c.whole(0) < target):
                total = c.variable(c.widened(c.constant(0)))
                for thread in c.loop(0, c.threads):
                    sums = c.sums + (thread * BYTES_PER_NUMBER + 8 * k) * c.width
                    total.set(total.get() + c.load_wide(sums + at * 2))
                c.store(c.narrowed(total.get()) * c.factor, target + at, masks[0])


@generated(MOMENTS)
def join_moments(c: Code) -> None:
    """Mean and variance from each thread's count n, point p and sums s, t of x - p and (x - p)^2.

    mean = sum of n p + s, over all rows; variance = sum of t - s^2 / n + n (p + s / n - mean)^2,
    over all rows.
    """
    for at, masks in _own_columns(c):
        zero = c.widened(c.constant(0))
        total = c.variable(zero)
        rows = c.variable(zero)
        squares = c.variable(zero)
        for thread in c.loop(0, c.threads):
            n, p, s, _ = _partial(c, thread, at)
            total.set(total.get() + n * p + s)
            rows.set(rows.get() + n)
        mean = total.get() / rows.get()
        for thread in c.loop(0, c.threads):
            n, p, s, t = _partial(c, thread, at)
            with c.when(c.whole(0) < c.get(c.counts + thread * 8)):
                away = p - mean + s / n
                squares.set(squares.get() + t - s * s / n + away * away * n)
        c.store(c.narrowed(mean), c.mean + at, masks[0])
        variance = c.narrowed(squares.get() / rows.get())
        c.store((variance < 0.0).pick(c.constant(0), variance), c.variance + at, masks[0])


def _own_columns(c: Code) -> Any:
    first, last = c.share(c.channels, c.lanes)
    return c.columns(last, 1, first)


def _partial(c: Code, thread: Whole, at: Whole) -> tuple[Vec, ...]:
    sums = c.sums + thread * c.width * BYTES_PER_NUMBER + at * 2
    n = c.widened(c.get(c.counts + thread * 8))
    p = c.widened(c.load(c.points + thread * c.width * 4 + at))
    return n, p, c.load_wide(sums), c.load_wide(sums + c.width * 8)
