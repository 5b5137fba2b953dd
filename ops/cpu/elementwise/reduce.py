"""Sums per channel: gradients of biases and of scales, and the sums of batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ops.cpu.codegen.code import Generated
from ops.cpu.codegen.target import host
from ops.cpu.elementwise.sums import BYTES_PER_NUMBER, sum_products, sum_rows, total_sums
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, Rows, address, halves, rows_of
from ops.errors import Array, Shape


class RowSums:
    """Sums over the `rows` of arrays of one shape and one set of strides. `arrays`: each array by
    the kernel's name for it."""

    def __init__(
        self, rows: Rows, threads: int, kernel: Generated, arrays: Mapping[str, Array]
    ) -> None:
        channels = rows.length
        lanes = host().lanes
        width = channels + -channels % lanes
        self.bytes = threads * width * BYTES_PER_NUMBER
        steps = zip(arrays, rows.strides, strict=True)
        given = {f"s{name}": step for name, step in steps}
        self.kernel = kernel.storing(halves(arrays))
        self.rows = rows.number
        self.block = self.kernel.block(rows=rows.number, channels=channels, width=width, **given)
        self.total = total_sums.block(channels=channels, width=width, threads=threads)


class Reductions(Fast):
    """Sums over all axes but one."""

    _row_sums: dict[Any, RowSums | None] | None = None

    def rows_along(self, x: Array, y: Array | None, axis: int) -> RowSums | None:
        """The plan of the sums of x (and of x * y) over all axes but one. None if the arrays do not
        lie as rows of channels."""
        if self._row_sums is None:
            self._row_sums = {}
        key = (
            axis,
            x.shape,
            x.strides,
            x.dtype,
            None if y is None else (y.shape, y.strides, y.dtype),
        )
        try:
            return self._row_sums[key]
        except KeyError:
            found = self._row_sums[key] = self._plan(x, y, axis)
            return found

    def _plan(self, x: Array, y: Array | None, axis: int) -> RowSums | None:
        arrays = {"x": x} if y is None else {"x": x, "y": y}
        rows = rows_of(list(arrays.values()), axis)
        kernel = sum_rows if y is None else sum_products
        return None if rows is None else RowSums(rows, self.team.size, kernel, arrays)

    def sum_along(
        self,
        plan: RowSums,
        x: Array,
        y: Array | None,
        first: Array | None,
        second: Array | None,
        factor: float = 1.0,
    ) -> None:
        """first = factor * sums of x; with y, second = factor * sums of x * y. None leaves either
        out."""
        block = plan.block
        total = plan.total
        block.sums = total.sums = self.workspace.take(plan.bytes)
        block.x = address(x)
        block.y = 0 if y is None else address(y)
        self.team.run(plan.kernel, block)
        total.first, total.second = (
            0 if target is None else address(target) for target in (first, second)
        )
        total.factor = factor
        self.team.run(total_sums, total)

    def channel_sums(self, x: Array, out: Array | None = None) -> Array:
        if x.ndim > 1:
            sums = self._sums(x, x.shape[1:2], 1, out)
            if sums is not None:
                return sums
        return super().channel_sums(x, out)

    def bias_backward(
        self, dy: Array, shape: Shape, axis: int = 1, out: Array | None = None
    ) -> Array:
        """Fast along one axis."""
        sums = self._sums(dy, shape, axis, out)
        return super().bias_backward(dy, shape, axis, out) if sums is None else sums

    def _sums(self, dy: Array, shape: Shape, axis: int, out: Array | None) -> Array | None:
        if not _along(dy, shape, axis):
            return None
        sums: Array = self.empty(shape, _of_sums(dy)) if out is None else out
        plan = self.rows_along(dy, None, axis)
        if plan is None or not plain(sums, shape[0]):
            return None
        self.sum_along(plan, dy, None, sums, None)
        return sums

    def scale_backward_weights(
        self, x: Array, dy: Array, shape: Shape, axis: int = 1, *, bias: bool,
        out_gamma: Array | None = None, out_beta: Array | None = None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """Fast along one axis."""
        if _along(x, shape, axis):
            dgamma: Array = self.empty(shape, _of_sums(x)) if out_gamma is None else out_gamma
            dbeta: Array | None = (
                (self.empty(shape, _of_sums(x)) if out_beta is None else out_beta) if bias else None
            )
            plan = self.rows_along(dy, x, axis)
            if (
                plan is not None
                and plain(dgamma, shape[0])
                and (dbeta is None or plain(dbeta, shape[0]))
            ):
                self.sum_along(plan, dy, x, dbeta, dgamma)
                return dgamma, dbeta
        return super().scale_backward_weights(
            x, dy, shape, axis, bias=bias, out_gamma=out_gamma, out_beta=out_beta
        )  # fmt: skip


def plain(x: Array, length: int, written: bool = True) -> bool:
    """Whether x is `length` float32 numbers side by side, and writeable if they are to be
    `written`."""
    fits = x.shape == (length,) and x.dtype == F32 and (x.strides[0] == 4 or length == 1)
    return fits and (x.flags.writeable or not written)


def _of_sums(x: Array) -> np.dtype[Any]:
    """The type of sums of x: float32 unless x is float64."""
    return np.promote_types(x.dtype, F32)


def _along(x: Array, shape: Shape, axis: int) -> bool:
    """Whether `shape` is the shape of that one axis."""
    return (
        type(axis) is int and len(shape) == 1 and 0 <= axis < x.ndim and x.shape[axis] == shape[0]
    )
