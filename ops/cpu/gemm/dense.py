"""Dense layers and products of matrices on the CPU backend: plans by shape and layout, kept for the
next call.

The arguments of a call are checked when its plan is made. Calls whose arrays have the same shapes
and layouts use the plan again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.cpu.gemm.gemm import Strides, planned
from ops.cpu.gemm.products import Plan, planned_as
from ops.cpu.team.operands import address
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from ops.errors import Array, OpsError
from ops.interface.backend import Backend
from ops.reference import dense

Key = tuple[Any, ...]
_ONE = np.ones(1, np.float32)


class DenseKernels(Backend):
    """The dense layers of `CpuBackend`: float32, rows or columns contiguous. The reference handles
    all other arrays. `precision`: that of the products."""

    team: Team
    workspace: Workspace
    precision: str = "fast"

    def __init__(self, b_p: int | None = None) -> None:
        super().__init__(b_p)
        self._products: dict[Key, Plan] = {}
        self._bias_products: dict[Key, Plan] = {}

    def matmul(self, a: Array, b: Array, out: Array) -> Array:
        """out (M, N) = a (M, K) b (K, N). out must not overlap a or b. Raises OpsError if the
        shapes do not fit."""
        key = ("matmul", *_looks(a, b, out))
        plan = self._products.get(key)
        if plan is None:
            if (
                a.ndim != 2
                or b.ndim != 2
                or a.shape[1] != b.shape[0]
                or out.shape != a.shape[:1] + b.shape[1:]
            ):
                raise OpsError(
                    f"matmul: a {a.shape}, b {b.shape}, out {out.shape}, expected "
                    "(M, K), (K, N), (M, N)"
                )
            plan = self._made(key, a, b, out)
        if plan is None or not self._run(plan, a, b, out):
            self.team.spoil()
            np.matmul(a, b, out=out)
        return out

    def dense_forward(
        self,
        x: Array,
        w: Array,
        b: Array | None,
        out: Array | None = None,
        *,
        rectify: bool = False,
    ) -> Array:
        key = ("forward", *_looks(x, w, b, out))
        plan = self._products.get(key)
        if plan is None:
            dense.check_forward(x, w, b, out)
            if out is None:
                out = self.empty((x.shape[0], w.shape[0]), x.dtype)
                return self.dense_forward(x, w, b, out, rectify=rectify)
            plan = self._made(key, x, w.T, out, bias=b)
        if (
            plan is None
            or out is None
            or not self._run(plan, x, w, out, b, 0.0 if rectify else -math.inf)
        ):
            return super().dense_forward(x, w, b, out=out, rectify=rectify)
        return out

    def dense_backward_data(self, dy: Array, w: Array, out: Array | None = None) -> Array:
        key = ("data", *_looks(dy, w, out))
        plan = self._products.get(key)
        if plan is None:
            dense.check_backward_data(dy, w, out)
            if out is None:
                return self.dense_backward_data(
                    dy, w, self.empty((dy.shape[0], w.shape[1]), dy.dtype)
                )
            plan = self._made(key, dy, w, out)
        if plan is None or out is None or not self._run(plan, dy, w, out):
            return super().dense_backward_data(dy, w, out=out)
        return out

    def dense_backward_weights(
        self,
        x: Array,
        dy: Array,
        *,
        bias: bool,
        out_w: Array | None = None,
        out_b: Array | None = None,
    ) -> tuple[Array, Array | None]:
        key = ("weights", bias, *_looks(x, dy, out_w, out_b))
        plan = self._products.get(key)
        if plan is None:
            dense.check_backward_weights(x, dy, out_w, out_b)
            if out_w is None or (bias and out_b is None):
                out_w = self.empty((dy.shape[1], x.shape[1]), x.dtype) if out_w is None else out_w
                out_b = self.empty(dy.shape[1:], x.dtype) if bias and out_b is None else out_b
                return self.dense_backward_weights(x, dy, bias=bias, out_w=out_w, out_b=out_b)
            plan = self._made(key, dy.T, x, out_w)
        done = not bias or self._bias_sum(key, dy, out_b)
        if plan is None or out_w is None or not done or not self._run(plan, dy, x, out_w):
            return super().dense_backward_weights(x, dy, bias=bias, out_w=out_w, out_b=out_b)
        return out_w, out_b if bias else None

    def dense_scratch(
        self,
        rows: int,
        width: int,
        outputs: int,
        *,
        training: bool,
        bias: bool = True,
        turned: bool = False,
    ) -> int:
        x = (4 * width, 4)
        y = (4 * outputs, 4)
        w = (4, 4 * outputs) if turned else (4 * width, 4)
        passes = [((rows, outputs, width), x, w[::-1], y, bias)]
        if training:
            passes += [
                ((rows, width, outputs), y, w, x, False),
                ((outputs, width, rows), y[::-1], x, w, False),
            ]
            passes += [((1, outputs, rows), (0, 0), y, y, False)] if bias else []
        plans = [
            planned_as(self.precision, self.team, shape, a, b, c, bias=added)
            for shape, a, b, c, added in passes
        ]
        return max(plan.scratch_bytes for plan in plans if plan is not None)

    def _made(
        self, key: Key, a: Array, b: Array, c: Array, bias: Array | None = None
    ) -> Plan | None:
        """The plan for c = a b + bias; None if no kernel takes these arrays."""
        floats = all(x.dtype == np.float32 for x in (a, b, c))
        if not floats or a.ndim != 2 or (bias is not None and bias.strides[0] != 4):
            return None
        (m, k), (n,) = a.shape, c.shape[1:]
        of = (_pair(x) for x in (a, b, c))
        plan = planned_as(self.precision, self.team, (m, n, k), *of, bias=bias is not None)
        if plan is not None:
            self._products[key] = plan
        return plan

    def _run(
        self,
        plan: Plan,
        a: Array,
        b: Array,
        c: Array,
        bias: Array | None = None,
        floor: float = -math.inf,
    ) -> bool:
        """Run a plan. Returns False if an address is one that no kernel takes."""
        at_a = address(a)
        at_b = address(b)
        at_c = address(c)
        at_bias = 0 if bias is None else address(bias)
        if (at_a | at_b | at_c | at_bias) & 3:
            return False
        plan.run(
            at_a, at_b, at_c, self.workspace.take(plan.scratch_bytes), bias=at_bias, floor=floor
        )
        return True

    def _bias_sum(self, key: Key, x: Array, out: Array | None) -> bool:
        """out (C,) = the sum of x (R, C) over its rows: a product with ones, which are one number
        with stride 0."""
        assert out is not None
        plan = self._bias_products.get(key)
        if plan is None:
            plan = planned(self.team, (1, len(out), len(x)), (0, 0), _pair(x), (0, out.strides[0]))
            if plan is None or x.dtype != np.float32:
                return False
            self._bias_products[key] = plan
        return self._run(plan, _ONE, x, out)


def _pair(x: Array) -> Strides:
    row, column = x.strides
    return row, column


def _looks(a: Array, b: Array, c: Array | None, d: Array | None = None) -> Key:
    """All properties that a plan and the checks depend on. The last array given is the
    destination."""
    return (
        a.shape,
        a.strides,
        a.dtype.num,
        b.shape,
        b.strides,
        b.dtype.num,
        c is not None and _look(c),
        d is not None and _look(d),
    )


def _look(x: Array) -> Key:
    return x.shape, x.strides, x.dtype.num, x.flags.writeable
