"""The interface of the CPU backend's convolution algorithms: each is made once for a shape and run
many times.

`direct` and `winograd` hold the algorithms; `choose` picks one for each pass of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from ops.errors import Array, Shape
from ops.geometry import ConvGeometry


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
    """One algorithm for one `ConvShape`, precision and team. Arrays are float32.

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
