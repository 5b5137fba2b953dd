"""Convolution on tiles, whose products are made in bfloat16: operands are rounded to even, and sums
are float32. Images are stored in float32 or in bfloat16, weights and their gradients in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ops.cpu.codegen.code import Generated
from ops.cpu.codegen.stored import AS_BFLOAT16, AS_FLOAT32, stored
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, Workspace
from ops.cpu.tiled import in_place, windows
from ops.cpu.tiled.block import SIDE
from ops.cpu.tiled.image_plan import FLOAT, ImagePlan, Steps, Sweep, Weights, in_one_run
from ops.cpu.tiled.images import images_kernel
from ops.cpu.tiled.in_place import InPlacePlan, in_place_kernel
from ops.cpu.tiled.pack import pack_pairs
from ops.cpu.tiled.weight_plan import WeightPlan
from ops.cpu.tiled.weights import tiled_total, weights_kernel
from ops.errors import Array, Shape
from ops.geometry import ConvGeometry

KEPT = 8  # plans of each pass: as many combinations of strides are remembered
OPEN = float("-inf")


class Tiled:
    """The passes of one convolution: x (N, C, H, W), w (K, C/groups, kh, kw) -> y (N, K, OH, OW).

    Arguments are those of `ops.cpu.conv.algorithm.Convolution`. A result differs from the exact sum
    of products of the rounded operands by (k + 2) 2^-23 times the sum of their absolute values at
    most, for sums of k products. Denormal numbers count as 0.
    """

    def __init__(
        self,
        in_shape: Shape,
        outputs: int,
        geometry: ConvGeometry,
        team: Team,
        workspace: Workspace,
    ) -> None:
        self._in_shape = in_shape
        self._outputs = outputs
        self._geometry = geometry
        self._team = team
        self._workspace = workspace
        self._weight_plans: dict[Any, WeightPlan] = {}
        self._plans: dict[Any, tuple[ImagePlan, ...]] = {}
        y = self._steps(geometry.output_shape(in_shape, outputs))
        x = self._steps(in_shape)
        # images in float32 are not read in place, so their plans take the most memory
        images = max(plan.bytes for plan in (*self._forward(x, y), *self._data(y, x)))
        self.workspace_bytes = max(images, self._weights(x, y).bytes)
        for kernel in self._usual():
            kernel.block()

    def __repr__(self) -> str:
        return f"<Tiled {self._in_shape} -> {self._outputs} {self._geometry}>"

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, floor: float = OPEN) -> None:
        """y = max(x * w + b, floor): floor 0 rectifies."""
        self._run(self._forward, x, w, 0 if b is None else b.ctypes.data, y, floor)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """dx, the gradient by x."""
        self._run(self._data, dy, w, 0, dx, OPEN)

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """dw, summed over the batch."""
        key = x.strides, dy.strides, x.dtype.num, dy.dtype.num
        plan = self._weight_plans.get(key)
        if plan is None:
            if len(self._weight_plans) >= KEPT:
                self._weight_plans.clear()
            plan = self._weights(_steps_of(x), _steps_of(dy))
            self._weight_plans[key] = plan
        self._team.hold(plan)
        base = self._workspace.take(plan.bytes)
        block = plan.block
        block.x = x.ctypes.data
        block.y = dy.ctypes.data
        block.w = dw.ctypes.data if plan.in_place else base
        block.scratch = base + plan.sums_bytes
        self._team.run(plan.kernel, block)
        if not plan.in_place:
            plan.total.w = base
            plan.total.dw = dw.ctypes.data
            self._team.run(tiled_total, plan.total)

    def _run(
        self,
        make: Callable[[Steps, Steps], tuple[ImagePlan, ...]],
        x: Array,
        w: Array,
        bias: int,
        y: Array,
        floor: float,
    ) -> None:
        key = make.__name__, x.strides, y.strides, x.dtype.num, y.dtype.num
        plans = self._plans.get(key)
        if plans is None:
            if len(self._plans) >= 2 * KEPT:
                self._plans.clear()
            plans = self._plans[key] = make(_steps_of(x), _steps_of(y))
        self._team.hold(plans)
        for plan in plans:
            base = self._workspace.take(plan.bytes)
            packing = plan.packing
            if packing.taps:
                packing.w = w.ctypes.data
                packing.packed = base
                packing.scratch = base + plan.weights_bytes
                self._team.run(pack_pairs, packing)
            block = plan.block
            block.x = x.ctypes.data
            block.y = y.ctypes.data + plan.y_at
            block.w = base
            block.scratch = base + plan.weights_bytes
            block.bias = bias
            block.floor = floor
            past = plan.past and block.y % LINE == 0
            self._team.run(plan.kernel.past if past else plan.kernel, block)

    def _usual(self) -> tuple[Generated, ...]:
        """The kernels for images as a net stores them. They are compiled early, others when they
        run."""
        kinds = AS_BFLOAT16, AS_BFLOAT16
        apart = [] if self._in_shape[0] % SIDE else [in_place_kernel(AS_BFLOAT16)]
        return images_kernel(*kinds), weights_kernel(*kinds), *apart

    def _sweep(self) -> Sweep:
        """How outputs read x."""
        groups = self._geometry.groups
        n, c, *size = self._in_shape
        rows, columns = (windows.forward(self._geometry, a, size[a]) for a in (0, 1))
        return Sweep(n, c // groups, self._outputs // groups, groups, rows, columns)

    def _weights(self, x: Steps, dy: Steps) -> WeightPlan:
        return WeightPlan(self._sweep(), x, dy, self._team.size)

    def _forward(self, x: Steps, y: Steps) -> tuple[ImagePlan, ...]:
        """The plan of a forward pass."""
        _, each, *kernel = self._weight_shape
        taps = kernel[0] * kernel[1]
        w = Weights(each * taps * FLOAT, taps * FLOAT, (kernel[0], kernel[1]), self._group_bytes)
        return (_plan(self._sweep(), x, y, w, self._team.size),)

    def _data(self, dy: Steps, dx: Steps) -> tuple[ImagePlan, ...]:
        """A plan for each class of pixels of x modulo the stride."""
        groups = self._geometry.groups
        n, c, *size = self._in_shape
        k, each, *kernel = self._weight_shape
        taps = kernel[0] * kernel[1]
        stride = self._geometry.stride
        w = Weights(taps * FLOAT, each * taps * FLOAT, (kernel[0], kernel[1]), self._group_bytes)
        to = dx._replace(h=dx.h * stride[0], w=dx.w * stride[1])
        plans = []
        for rh, rw in np.ndindex(min(stride[0], size[0]), min(stride[1], size[1])):
            rows = windows.backward(self._geometry, 0, size[0], rh)
            columns = windows.backward(self._geometry, 1, size[1], rw)
            s = Sweep(n, k // groups, c // groups, groups, rows, columns)
            at = rh * dx.h + rw * dx.w
            plans.append(_plan(s, dy, to, w, self._team.size, at))
        return tuple(plans)

    @property
    def _weight_shape(self) -> Shape:
        return (
            self._outputs,
            self._in_shape[1] // self._geometry.groups,
            *self._geometry.kernel,
        )

    @property
    def _group_bytes(self) -> int:
        k, c, kh, kw = self._weight_shape
        return k // self._geometry.groups * c * kh * kw * FLOAT

    def _steps(self, shape: Shape) -> Steps:
        """The strides of images in float32 that lie as [H][W][N][C]."""
        n, c, _, w = shape
        return Steps(c * FLOAT, w * n * c * FLOAT, n * c * FLOAT, FLOAT, AS_FLOAT32)


def _plan(s: Sweep, x: Steps, y: Steps, w: Weights, threads: int, at: int = 0) -> ImagePlan:
    """The plan of a sweep: the fastest that can read x."""
    apart = in_place.supports(s, x) and not in_one_run(s, x)
    kind = InPlacePlan if apart else ImagePlan
    return kind(s, x, y, w, threads, at)


def _steps_of(x: Array) -> Steps:
    n, c, h, w = x.strides
    return Steps(n, h, w, c, stored(x.dtype))
