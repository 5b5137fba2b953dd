"""Layer normalisation along the axis whose numbers lie side by side: one pass over memory each way,
a row at a time.

A row is read twice, but the second time from the first-level cache. So the variance is taken about
the row's own mean and does not cancel away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ops.cpu.codegen.code import Code, Generated, Mask, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, Rows, address, as_rows, goes_past
from ops.errors import Array

UNROLLED = 4  # vectors at a time
FORWARD = layout("y sy x sx rows length inverse", "eps part")
BACKWARD = layout("dx sdx dy sdy y sy rows length inverse", "part")


@generated(FORWARD)
def layer_norm(c: Code) -> None:
    """y = (x - mean) * inverse for each row, inverse = 1 / sqrt(variance + eps); `part` is 1 /
    length."""
    first, last = c.share(c.rows)
    for row in c.loop(first, last):
        _forward(c, c.x + row * c.sx, c.y + row * c.sy, c.inverse + row * 4)


@generated(BACKWARD)
def layer_norm_back(c: Code) -> None:
    """dx = (dy - mean of dy - y * mean of dy y) * inverse for each row; `part` is 1 / length."""
    first, last = c.share(c.rows)
    for row in c.loop(first, last):
        inverse = c.spread(c.inverse + row * 4)
        _backward(c, c.dy + row * c.sdy, c.y + row * c.sy, inverse, c.dx + row * c.sdx)


def _forward(c: Code, x: Whole, y: Whole, inverse: Whole) -> None:
    """One row. x, y and inverse are addresses."""
    mean = _sum(c, lambda at, mask: c.load(x + at, mask)) * c.part

    def square(at: Whole, mask: Mask) -> Vec:
        away = c.only(c.load(x + at, mask) - mean, mask, 0.0)
        squared: Vec = away * away
        return squared

    found = c.constant(1) / c.apply("sqrt", _sum(c, square) * c.part + c.eps)
    c.store(found, inverse, c.v.mask(c.whole(1).value))
    _write(c, y, lambda at, mask: (c.load(x + at, mask) - mean) * found)


def _backward(c: Code, dy: Whole, y: Whole, inverse: Vec, dx: Whole) -> None:
    """One row. dy, y and dx are addresses."""
    mean = _sum(c, lambda at, mask: c.load(dy + at, mask)) * c.part
    slope = _sum(c, lambda at, mask: c.load(dy + at, mask) * c.load(y + at, mask)) * c.part

    def gradient(at: Whole, mask: Mask) -> Vec:
        found: Vec = (c.load(dy + at, mask) - mean - c.load(y + at, mask) * slope) * inverse
        return found

    _write(c, dx, gradient)


def _sum(c: Code, term: Callable[[Whole, Mask], Vec]) -> Vec:
    """The sum of a row's terms, in every lane."""
    total = c.variable(c.constant(0))
    for offset, masks in c.columns(c.length, UNROLLED):
        terms = [term(offset + k * c.lanes * 4, mask) for k, mask in enumerate(masks)]
        for one in terms:
            total.set(total.get() + one)
    return c.across("fadd", total.get())


def _write(c: Code, at: Whole, value: Callable[[Whole, Mask], Vec]) -> None:
    for offset, masks in c.columns(c.length, UNROLLED):
        for k, mask in enumerate(masks):
            place = offset + k * c.lanes * 4
            c.deliver(value(place, mask), at + place, mask)


class LayerNormalisation(Fast):
    """Layer normalisation of float32 arrays along the axis whose numbers are neighbours."""

    _laid: dict[Any, Rows | None] | None = None

    def layer_norm_forward(
        self,
        x: Array,
        *,
        axis: int = 1,
        eps: float = 1e-5,
        out: Array | None = None,
        inverse: Array | None = None,
    ) -> tuple[Array, Array]:
        self.team.spoil()  # NumPy copies the inverse deviations
        y = self.like(x, out)
        rows = self._rows((y, x), axis)
        shape = () if rows is None else _without(x.shape, axis)
        found = np.empty(shape, F32) if inverse is None else inverse
        if rows is None or found.shape != shape or found.dtype != F32 or not _writeable(y, found):
            return super().layer_norm_forward(x, axis=axis, eps=eps, out=out, inverse=inverse)
        of_rows = np.empty(rows.number, F32)
        self._row_by_row(layer_norm, rows, (y, x), ("y", "x"), of_rows, eps=eps)
        found[...] = _logical(of_rows, x, axis)
        return y, found

    def layer_norm_backward(
        self, dy: Array, y: Array, inverse: Array, *, axis: int = 1, out: Array | None = None
    ) -> Array:
        self.team.spoil()
        dx = self.like(dy, out)
        rows = self._rows((dx, dy, y), axis)
        shape = () if rows is None else _without(dy.shape, axis)
        if rows is None or inverse.shape != shape or inverse.dtype != F32 or not _writeable(dx):
            return super().layer_norm_backward(dy, y, inverse, axis=axis, out=out)
        of_rows = np.empty(rows.number, F32)
        _logical(of_rows, dy, axis)[...] = inverse
        self._row_by_row(layer_norm_back, rows, (dx, dy, y), ("dx", "dy", "y"), of_rows)
        return dx

    def _row_by_row(
        self,
        kernel: Generated,
        rows: Rows,
        arrays: tuple[Array, ...],
        names: tuple[str, ...],
        inverse: Array,
        **numbers: float,
    ) -> None:
        places = {name: address(array) for name, array in zip(names, arrays, strict=True)}
        steps = {f"s{name}": step for name, step in zip(names, rows.strides, strict=True)}
        block = kernel.block(
            rows=rows.number,
            length=rows.length,
            inverse=inverse.ctypes.data,
            part=1 / rows.length,
            **places,
            **steps,
            **numbers,
        )
        into, *others = places.values()
        past = into not in others and goes_past(arrays[0].nbytes, (into,), rows.strides[:1])
        self.team.run(kernel.past if past else kernel, block)

    def _rows(self, arrays: tuple[Array, ...], axis: int) -> Rows | None:
        """The arrays as rows along the axis; None if their numbers are no neighbours there."""
        if self._laid is None:
            self._laid = {}
        key = axis, *((array.shape, array.strides, array.dtype) for array in arrays)
        if key not in self._laid:
            shape = arrays[0].shape
            alike = all(array.shape == shape and array.dtype == F32 for array in arrays)
            fits = alike and len(shape) > 1 and 0 not in shape
            inside = type(axis) is int and -len(shape) <= axis < len(shape)
            self._laid[key] = (
                as_rows(
                    shape,
                    [4] * len(arrays),
                    [array.strides for array in arrays],
                    axis % len(shape),
                )
                if fits and inside
                else None
            )
        return self._laid[key]


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape, or the strides, without one of its axes."""
    return tuple(size for k, size in enumerate(shape) if k != axis % len(shape))


def _logical(of_rows: Array, x: Array, axis: int) -> Array:
    """A number for each row of x, in the order of memory, as a view of x's shape without the
    axis."""
    shape = _without(x.shape, axis)
    steps = _without(x.strides, axis)
    order = sorted(range(len(shape)), key=lambda k: (shape[k] == 1, -steps[k]))
    ordered = of_rows.reshape([shape[k] for k in order])
    back: Array = ordered.transpose([order.index(k) for k in range(len(shape))])
    return back


def _writeable(*arrays: Array) -> bool:
    return all(array.flags.writeable for array in arrays)
