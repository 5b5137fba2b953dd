"""Direct convolution: every sum as it stands in the definition, for any shape, on the micro-kernel.

`direct_plans` makes the plan of a pass, once for each combination of strides. Here a pass fills in
the addresses and runs it. The loops are in `image_loops`, `weight_loops`, `pixel_loops` and `pack`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ops.cpu.conv.algorithm import ConvShape
from ops.cpu.conv.direct_plans import Plans, Work
from ops.cpu.conv.image_loops import convolve
from ops.cpu.conv.pack import add_parts, pack_weights, unpack_weights
from ops.cpu.conv.taps import steps_of
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE, Workspace
from ops.errors import Array

KEPT = 8  # plans of each pass: as many combinations of strides are remembered
OPEN = float("-inf")


class Direct:
    """Direct convolution of one shape. In forward and backward_weights the channels of x may also
    lie apart."""

    def __init__(self, shape: ConvShape, team: Team, workspace: Workspace) -> None:
        self.shape = shape
        self.team = team
        self.workspace = workspace
        self._forward: dict[Any, tuple[Work, ...]] = {}
        self._data: dict[Any, tuple[Work, ...]] = {}
        self._weights: dict[Any, tuple[Work, ...]] = {}
        self._plans = Plans(shape, team)
        self.workspace_bytes = self._plans.most_bytes()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape}>"

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, floor: float = OPEN) -> None:
        """y = max(x * w + b, floor): floor 0 rectifies."""
        works = self._plan(self._forward, x, y, self._plans.forward)
        self._convolve(works, x, w, y, 0 if b is None else b.ctypes.data, floor)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """dx, the gradient by x."""
        self._convolve(self._plan(self._data, dy, dx, self._plans.data), dy, w, dx, 0, OPEN)

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """dw, summed over the batch."""
        (work,) = self._plan(self._weights, x, dy, self._plans.weights)
        block = work.block
        packing = work.packing
        base = self.workspace.take(work.bytes)
        block.scratch = base + work.weights_bytes
        if work.turned:  # rows are outputs, columns channels
            x, dy = dy, x
        block.x = x.ctypes.data + work.x_at
        block.y = dy.ctypes.data + work.y_at
        block.w = dw.ctypes.data if packing is None else base
        self.team.run(work.run, block)
        if packing is not None:
            packing.w = dw.ctypes.data
            packing.packed = base
            self.team.run(add_parts if work.turned else unpack_weights, packing)

    def _plan(self, kept: dict[Any, Any], x: Array, y: Array, make: Any) -> Any:
        key = (x.strides, y.strides)
        works = kept.get(key)
        if works is None:
            if len(kept) >= KEPT:
                kept.clear()
            works = kept[key] = tuple(make(steps_of(x), steps_of(y)))
        self.team.hold(works)
        return works

    def _convolve(
        self, works: Iterable[Work], x: Array, w: Array, y: Array, bias: int, floor: float
    ) -> None:
        x_at = x.ctypes.data
        w_at = w.ctypes.data
        y_at = y.ctypes.data
        for work in works:
            block = work.block
            packing = work.packing
            base = self.workspace.take(work.bytes)
            if packing is not None:
                packing.w = w_at + work.w_at
                packing.packed = base
                self.team.run(pack_weights, packing)
            block.x = x_at + work.x_at
            block.y = y_at + work.y_at
            block.w = base
            block.scratch = base + work.weights_bytes
            block.bias = bias
            block.floor = floor
            block.beyond = work.past and not (block.y % LINE)
            self.team.run(convolve, block)


class FirstLayer(Direct):
    """The layer that reads the data: few channels, x with any strides, plain NCHW among them."""
