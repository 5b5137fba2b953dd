"""Where results of a convolution read their source along one axis, and how a copy of the source
puts what they read side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ops.geometry import ConvGeometry


@dataclass(frozen=True)
class Axis:
    """Result p of `results` reads a source of `size` pixels at p * step + off + t * hop, for the t
    of each tap. taps: the kernel's taps in this order."""

    size: int
    results: int
    step: int
    off: int
    hop: int
    taps: tuple[int, ...]

    @property
    def remainders(self) -> list[int]:
        """The remainders modulo the step of the pixels that taps read, from `off`."""
        return sorted({t * self.hop % self.step for t in range(len(self.taps))})

    @property
    def reach(self) -> int:
        """The most steps from a result's first pixel to its last."""
        return max((t * self.hop // self.step for t in range(len(self.taps))), default=0)

    def copied(self, results: int) -> int:
        """Places of the copy for `results` neighbouring results: a run for each remainder."""
        return len(self.remainders) * (results + self.reach)

    def sources(self, results: int) -> NDArray[np.int64]:
        """The pixel at each place of the copy, from result 0; negative before the source."""
        first = np.array(self.remainders, np.int64) + self.off
        return (first[:, None] + np.arange(results + self.reach) * self.step).ravel()

    def places(self, results: int) -> NDArray[np.int64]:
        """The place of the first result's pixel for each tap."""
        reads = np.arange(len(self.taps)) * self.hop
        slots = np.searchsorted(self.remainders, reads % self.step)
        return slots * (results + self.reach) + reads // self.step


def forward(geometry: ConvGeometry, axis: int, size: int) -> Axis:
    """How outputs read x."""
    kernel, stride, pad, dilation = _of(geometry, axis)
    outputs = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return Axis(size, outputs, stride, -pad, dilation if kernel > 1 else 1, tuple(range(kernel)))


def backward(geometry: ConvGeometry, axis: int, size: int, residue: int) -> Axis:
    """How the gradients by pixels `residue`, `residue` + stride, ... of x read dy: the taps that
    reach them, by output."""
    kernel, stride, pad, dilation = _of(geometry, axis)
    outputs = forward(geometry, axis, size).results
    taps = tuple(k for k in reversed(range(kernel)) if (residue + pad - k * dilation) % stride == 0)
    reached = [(residue + pad - k * dilation) // stride for k in taps]
    hop = reached[1] - reached[0] if len(taps) > 1 else 1
    return Axis(outputs, len(range(residue, size, stride)), 1, reached[0] if taps else 0, hop, taps)


def _of(geometry: ConvGeometry, axis: int) -> tuple[int, int, int, int]:
    g = geometry
    return g.kernel[axis], g.stride[axis], g.pad[axis], g.dilation[axis]
