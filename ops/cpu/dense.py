"""Dense layers and products of matrices on the CPU backend: plans by shape and layout, kept for the next call.

What never lives here: loops (`gemm`), checks (`ops.dense`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops import dense
from ops.backend import Backend
from ops.cpu.gemm import Product, planned
from ops.cpu.team import Team
from ops.cpu.workspace import Workspace
from ops.errors import Array, OpsError

_ONE = np.ones(1, np.float32)


class DenseKernels(Backend):
    """The dense layers of `CpuBackend`. float32 whose rows or columns are contiguous; anything else as the reference."""

    team: Team
    workspace: Workspace

    def __init__(self, b_p: int | None = None) -> None:
        super().__init__(b_p)
        self._products: dict[tuple[Any, ...], Product | None] = {}

    def matmul(self, a: Array, b: Array, out: Array) -> Array:
        """out (M, N) = a (M, K) b (K, N), all float32 and apart in memory; OpsError where they do not fit."""
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or out.shape != (a.shape[0], b.shape[1]):
            raise OpsError(f"matmul: a {a.shape}, b {b.shape}, out {out.shape}, expected (M, K), (K, N), (M, N)")
        if not self._multiply(a, b, out):
            np.matmul(a, b, out=out)
        return out

    def dense_forward(
        self, x: Array, w: Array, b: Array | None, out: Array | None = None, *, rectify: bool = False
    ) -> Array:
        """As Backend's."""
        dense.check_forward(x, w, b, out)
        y = self._result((x.shape[0], w.shape[0]), x.dtype, out)
        if (b is None or b.strides[0] == 4) and self._multiply(x, w.T, y, b, 0.0 if rectify else -math.inf):
            return y
        return super().dense_forward(x, w, b, out=y, rectify=rectify)

    def dense_backward_data(self, dy: Array, w: Array, out: Array | None = None) -> Array:
        """As Backend's."""
        dense.check_backward_data(dy, w, out)
        dx = self._result((dy.shape[0], w.shape[1]), dy.dtype, out)
        return dx if self._multiply(dy, w, dx) else super().dense_backward_data(dy, w, out=dx)

    def dense_backward_weights(
        self, x: Array, dy: Array, *, bias: bool, out_w: Array | None = None, out_b: Array | None = None
    ) -> tuple[Array, Array | None]:
        """As Backend's."""
        dense.check_backward_weights(x, dy, out_w, out_b)
        dw = self._result((dy.shape[1], x.shape[1]), x.dtype, out_w)
        db = self._result((dy.shape[1],), x.dtype, out_b) if bias else None
        if not self._multiply(dy.T, x, dw) or (db is not None and not self._sum_rows(dy, db)):
            return super().dense_backward_weights(x, dy, bias=bias, out_w=dw, out_b=db)
        return dw, db

    def _result(self, shape: tuple[int, ...], dtype: Any, out: Array | None) -> Array:
        return self.empty(shape, dtype) if out is None else out

    def _multiply(
        self, a: Array, b: Array, c: Array, bias: Array | None = None, floor: float = -math.inf
    ) -> bool:
        """Compute c = max(a b + bias, floor); False: no kernel for these arrays."""
        if c.dtype != np.float32:
            return False
        key = (a.shape, b.shape, a.strides, b.strides, c.strides, bias is None)
        try:
            plan = self._products[key]
        except KeyError:
            shape = (*c.shape, a.shape[1])
            plan = planned(self.team, shape, a.strides, b.strides, c.strides, bias=bias is not None)
            self._products[key] = plan
        return plan is not None and self._run(plan, a, b, c, 0 if bias is None else bias.ctypes.data, floor)

    def _run(self, plan: Product, a: Array, b: Array, c: Array, bias: int, floor: float) -> bool:
        at = a.ctypes.data, b.ctypes.data, c.ctypes.data
        if (at[0] | at[1] | at[2] | bias) % 4:
            return False
        plan.run(*at, self.workspace.take(plan.scratch_bytes), bias=bias, floor=floor)
        return True

    def _sum_rows(self, x: Array, out: Array) -> bool:
        """out (C,) = the sum of x (R, C) over its rows: a product with ones, all of them the same one."""
        key = ("sum", x.shape, x.strides, out.strides)
        if key not in self._products:
            shape, c = (1, x.shape[1], x.shape[0]), (4 * x.shape[1], out.strides[0])
            self._products[key] = planned(self.team, shape, (0, 0), x.strides, c)
        plan = self._products[key]
        return plan is not None and self._run(plan, _ONE, x, out, 0, -math.inf)
