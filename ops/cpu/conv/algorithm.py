"""The interface of the CPU backend's convolution algorithms: each is made once for a shape and run
many times.

`direct` and `winograd` hold the algorithms; `choose` picks one for each pass of a layer. An
algorithm for float32 images takes bfloat16 images, too, when it is `Converted`.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ops.cpu.team.operands import F32
from ops.cpu.team.streams import Stream, Streams
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace, aligned
from ops.errors import BFLOAT16, Array, Shape
from ops.geometry import ConvGeometry

OPEN = float("-inf")
CONVERT = Stream("convert", "y", "x", lambda _, x: [x])


@dataclass(frozen=True)
class ConvShape:
    """A convolution: x (N, C, H, W), w (K, C/groups, kh, kw) -> y (N, K, OH, OW)."""

    in_shape: Shape
    outputs: int
    geometry: ConvGeometry

    @property
    def out_shape(self) -> Shape:
        """(N, K, OH, OW)."""
        return self.geometry.output_shape(self.in_shape, self.outputs)

    @property
    def weight_shape(self) -> Shape:
        """(K, C/groups, kh, kw)."""
        return (self.outputs, self.in_shape[1] // self.geometry.groups, *self.geometry.kernel)


class Convolution(Protocol):
    """One algorithm for one `ConvShape`, precision and team. Arrays are float32; `Tiled`,
    `Depthwise` and `Converted` also take images in bfloat16.

    x, y, dx and dy are logical NCHW, `channels_last` in memory, with any strides between images,
    rows and columns. w, dw (K, C/groups, kh, kw) and b (K,) are C-contiguous. Destinations are
    overwritten, whatever they held. The scratch comes from the workspace, `workspace_bytes` of it
    at most; nothing else is allocated after the constructor.
    """

    workspace_bytes: int

    def __init__(self, shape: ConvShape, team: Team, workspace: Workspace) -> None: ...

    def forward(
        self, x: Array, w: Array, b: Array | None, y: Array, floor: float = float("-inf")
    ) -> None:
        """y = max(x * w + b, floor): floor 0 rectifies."""

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """dx, the gradient by x."""

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """dw, summed over the batch."""


class Converted:
    """The passes of `inner`, an algorithm for float32 images, for images in float32 or bfloat16, in
    any mix: operands are widened into the workspace, and results are rounded from there."""

    def __init__(
        self, shape: ConvShape, inner: Convolution, team: Team, workspace: Workspace
    ) -> None:
        self._inner = inner
        self._team = team
        self._streams = Streams(team)
        self._workspace = workspace
        self._begin = aligned(inner.workspace_bytes)
        images = (aligned(_bytes(size)) for size in (shape.in_shape, shape.out_shape))
        self.workspace_bytes = self._begin + sum(images)

    def __repr__(self) -> str:
        return f"<Converted {self._inner!r}>"

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, floor: float = OPEN) -> None:
        """y = max(x * w + b, floor): floor 0 rectifies."""
        wide_x, wide_y = self._wide(x, y)
        self._copy(x, wide_x)
        self._inner.forward(wide_x, w, b, wide_y, floor)
        self._copy(wide_y, y)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """dx, the gradient by x."""
        wide_dy, wide_dx = self._wide(dy, dx)
        self._copy(dy, wide_dy)
        self._inner.backward_data(wide_dy, w, wide_dx)
        self._copy(wide_dx, dx)

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """dw, summed over the batch."""
        wide_x, wide_dy = self._wide(x, dy)
        self._copy(x, wide_x)
        self._copy(dy, wide_dy)
        self._inner.backward_weights(wide_x, wide_dy, dw)

    def _wide(self, *images: Array) -> list[Array]:
        """The images themselves, or float32 images in the workspace, behind the memory that the
        inner algorithm takes."""
        at = self._workspace.take(self.workspace_bytes) + self._begin
        found = []
        for one in images:
            if one.dtype == BFLOAT16:
                found.append(_images_at(at, one))
                at += aligned(_bytes(one.shape))
            else:
                found.append(one)
        return found

    def _copy(self, source: Array, target: Array) -> None:
        """Copy images to others of their shape, unless they are the same."""
        if source is not target and not self._streams.run(CONVERT, (target, source)):
            self._team.do(np.copyto, target, source)


def _bytes(shape: Shape) -> int:
    return math.prod(shape) * F32.itemsize


def _images_at(at: int, like: Array) -> Array:
    """Float32 images at an address, with the axes in the order of other images. The stride of one
    image alone says nothing."""
    steps = [step * (size > 1) for step, size in zip(like.strides, like.shape, strict=True)]
    order = [*sorted((0, 2, 3), key=lambda axis: (-steps[axis], -axis)), 1]
    block: Any = (ctypes.c_char * _bytes(like.shape)).from_address(at)
    found: Array = np.frombuffer(block, F32).reshape([like.shape[axis] for axis in order])
    return found.transpose(np.argsort(order))
