"""The gradient of a rectifier over a sum, with its sums for batch norm, in one pass.

In a residual block the gradient of the result is the sum of two: from the next block and around it.
One kernel adds them, rectifies, writes the result, which is also the gradient of the shortcut, and
takes its sums: 5 arrays are read or written. One operation after the other, these are 3 passes and
8 arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ops.cpu.elementwise.norm_scale import NormScale
from ops.cpu.elementwise.reduce import RowSums, plain
from ops.cpu.elementwise.sums import rectified_sums, total_sums
from ops.cpu.team.operands import address, goes_past, rows_of
from ops.errors import Array

KERNELS = {count: rectified_sums(count) for count in (1, 2)}


class RectifiedSums(NormScale):
    """`rectified_sums` over rows of channels."""

    sums_as_it_rectifies = True
    _rectifying: dict[Any, RowSums | None] | None = None

    def rectified_sums(
        self,
        gradients: Sequence[Array],
        y: Array,
        x: Array,
        mean: Array,
        *,
        out: Array | None = None,
        out_sums: Array | None = None,
        out_products: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        g = self.like(y, out)
        arrays = (g, *gradients, y, x)
        plan = self._rectifying_plan(arrays) if len(gradients) in KERNELS else None
        if plan is not None and g.flags.writeable:
            channels = y.shape[1]
            sums, products = (
                self.empty((channels,)) if a is None else a for a in (out_sums, out_products)
            )
            if plain(mean, channels, False) and plain(sums, channels) and plain(products, channels):
                self._rectify(plan, arrays, mean, sums, products)
                return g, sums, products
        self.team.spoil()
        return super().rectified_sums(
            gradients, y, x, mean, out=out, out_sums=out_sums, out_products=out_products
        )

    def _rectify(
        self, plan: RowSums, arrays: Sequence[Array], mean: Array, sums: Array, products: Array
    ) -> None:
        block = plan.block
        total = plan.total
        block.sums = total.sums = self.workspace.take(plan.bytes)
        places = [address(array) for array in arrays]
        for name, place in zip(_names(len(arrays) - 3), places, strict=True):
            setattr(block, name, place)
        block.mean = address(mean)
        in_place = places[0] in places[1:]
        past = not in_place and goes_past(arrays[0].nbytes, places[:1], (block.sout,))
        self.team.run(plan.kernel.past if past else plan.kernel, block)
        total.first = address(sums)
        total.second = address(products)
        total.factor = 1.0
        self.team.run(total_sums, total)

    def _rectifying_plan(self, arrays: Sequence[Array]) -> RowSums | None:
        """The plan for these arrays; None if they do not lie as rows of channels."""
        if self._rectifying is None:
            self._rectifying = {}
        key = tuple((array.shape, array.strides, array.dtype) for array in arrays)
        if key not in self._rectifying:
            rows = rows_of(arrays, 1) if arrays[0].ndim > 1 else None
            count = len(arrays) - 3
            named = dict(zip(_names(count), arrays, strict=True))
            self._rectifying[key] = (
                None if rows is None else RowSums(rows, self.team.size, KERNELS[count], named)
            )
        return self._rectifying[key]


def _names(count: int) -> list[str]:
    """The kernel's arrays for `count` gradients."""
    return ["out", *(f"g{k}" for k in range(count)), "y", "x"]
