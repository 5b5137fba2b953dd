"""The base of every family of fast operations: the threads, the scratch memory, the streams.

A family is a class that overrides some methods of the interface. It handles the arrays that its
kernels can read (float32 or bfloat16, channels side by side). `super()` handles all others, and
raises the errors about arguments.
"""

from __future__ import annotations

import numpy as np

from ops.cpu.team.image_layout import empty_images
from ops.cpu.team.operands import F32
from ops.cpu.team.streams import Streams
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import Workspace
from ops.errors import Array, Shape
from ops.interface.widened import Widened


class Fast(Widened):
    """A backend with a team of threads and a workspace."""

    team: Team
    workspace: Workspace
    _streams: Streams | None = None

    @property
    def streams(self) -> Streams:
        """The element-by-element kernels on this backend's team."""
        if self._streams is None:
            self._streams = Streams(self.team)
        return self._streams

    def like(self, x: Array, out: Array | None) -> Array:
        """`out`, or a new array laid out as x."""
        if out is None:
            self.team.spoil()  # the next result would lie elsewhere
            return np.empty_like(x)
        return out

    def widened(self, x: Array) -> Array:
        self.team.spoil()  # NumPy makes the copy, for this call only
        return super().widened(x)

    def images_like(
        self, shape: Shape, out: Array | None, dtype: np.dtype[np.generic] = F32
    ) -> Array:
        """`out`, or new images over memory [H][W][N][C]."""
        if out is None:
            self.team.spoil()  # the next result would lie elsewhere
            return empty_images(shape, dtype)
        return out
