"""Matrix products by a module's `matmul`, where there is no cuBLAS; and fully connected layers by
products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.cuda.device import OnDevice
from ops.cuda.image_layout import step_of
from ops.cuda.repeats import repeated
from ops.errors import BFLOAT16, Array, Shape
from ops.reference import dense, rearrange


class PlainProduct:
    """out = a b, or out + a b, as NumPy computes it."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def __call__(self, a: Array, b: Array, out: Array, accumulate: bool) -> None:
        if a.dtype == BFLOAT16:
            product = self._xp.matmul(a.astype(np.float32), b.astype(np.float32))
            out[...] = out + product if accumulate else product
        elif accumulate:
            out += self._xp.matmul(a, b)
        else:
            self._xp.matmul(a, b, out=out)


class Dense(OnDevice):
    """Overrides the operations of InnerProduct: a product and at most one launch each, two for the
    sums of a bias; and the order of its inputs."""

    @repeated
    def flatten(self, x: Array, out: Array | None = None) -> Array:
        """One launch for images whose pixels touch."""
        shape = rearrange.check_flatten(x, out)
        if x.ndim != 4 or x.size == 0 or step_of(x) != x.shape[1]:
            return super().flatten(x, out)
        y: Array = self.xp.empty(shape, x.dtype) if out is None else out
        if not y.flags.c_contiguous:
            return super().flatten(x, out)
        self.turn(x, y, math.prod(x.shape[2:]), x.shape[1])
        return y

    @repeated
    def unflatten(self, dy: Array, in_shape: Shape, out: Array | None = None) -> Array:
        """One launch for images whose pixels touch."""
        rearrange.check_unflatten(dy, in_shape, out)
        if len(in_shape) != 4 or dy.size == 0 or not dy.flags.c_contiguous:
            return super().unflatten(dy, in_shape, out)
        dx = self.images_like(in_shape, out, dy.dtype)
        if step_of(dx) != dx.shape[1]:
            return super().unflatten(dy, in_shape, out)
        self.turn(dy, dx, dx.shape[1], math.prod(dx.shape[2:]))
        return dx

    @repeated
    def dense_forward(
        self,
        x: Array,
        w: Array,
        b: Array | None,
        out: Array | None = None,
        *,
        rectify: bool = False,
    ) -> Array:
        dense.check_forward(x, w, b, out)
        y: Array = self.xp.empty((x.shape[0], w.shape[0]), x.dtype) if out is None else out
        into = y if step_of(y) is not None else self.xp.empty(y.shape, y.dtype)
        self.product(x, w.T, into, False)
        self.shifted(into, b, rectify)
        return self.delivered(into, y)

    @repeated
    def dense_backward_data(self, dy: Array, w: Array, out: Array | None = None) -> Array:
        dense.check_backward_data(dy, w, out)
        dx: Array = self.xp.empty((dy.shape[0], w.shape[1]), dy.dtype) if out is None else out
        self.product(dy, w, dx, False)
        return dx

    @repeated
    def dense_backward_weights(
        self,
        x: Array,
        dy: Array,
        *,
        bias: bool,
        out_w: Array | None = None,
        out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:
        dense.check_backward_weights(x, dy, out_w, out_b)
        dw: Array = self.xp.empty((dy.shape[1], x.shape[1]), x.dtype) if out_w is None else out_w
        self.product(dy.T, x, dw, False)
        if not bias:
            return dw, None
        rows = dy if step_of(dy) is not None else self.contiguous(dy)
        return dw, self.column_sums(rows, out_b)
