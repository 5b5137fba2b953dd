"""A net that computes nothing. It has the shapes, stages and parameters of the real net, so that
messages have their true size.

The caller decides how long a pass takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data import Batches
from nets.data.batches.batches import Into
from nets.graph.graph import Net
from nets.graph.stages import Stage
from ops import Array


class EmulatedNet(Net):
    """A `Net` on the backend "emulated", with the same arguments. Every score is 0.

    `on_rows` is called with the number of rows at the beginning of each pass.
    """

    on_rows: Callable[[int], None] = staticmethod(lambda rows: None)

    def begin(self, step: int, rows: tuple[int, int] | None = None, *more: tuple[int, int]) -> None:
        """Start a pass as Net.begin does, without taking memory."""
        super().begin(step, rows, *more)
        self.on_rows(self._rows)

    def _place(self) -> None:
        self._placed = self._block.array

    def feed(self, name: str, array: Any) -> None:
        """Ignore an input."""

    def load(self, layer: str, blobs: Sequence[Array]) -> None:
        """Ignore parameters."""

    def forward(self, stage: Stage) -> None:
        """Compute nothing."""

    def backward(self, stage: Stage, out: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """Return arrays of the shapes of the stage's gradients, or `out` if given."""
        if stage.layer is None:
            return ()
        return tuple(out) if out is not None else self._like(stage.layer)

    def set_grad(self, name: str, array: Any) -> None:
        """Ignore a gradient."""

    def blob(self, name: str) -> Array:
        """Return an array of the blob's shape."""
        return self.ops.empty(self.shape(name), self.dtype)

    def grad(self, name: str) -> Array:
        """Return an array of the blob's shape."""
        return self.blob(name)

    def feed_rows(self, name: str, array: Any) -> None:
        """Ignore an input."""

    def set_grad_rows(self, name: str, array: Any) -> None:
        """Ignore a gradient."""

    def scalars(self) -> dict[str, float]:
        """Return the scores of the real net by name, all 0."""
        found = {}
        losses = 0
        for node in self.nodes:
            for place, (i, weight) in enumerate(
                zip(node.tops, node.layer.loss_weights, strict=True)
            ):
                if weight or (place == 0 and node.layer.scores):
                    found[self._value(i).name] = 0.0
                    losses += node.layer.differentiable
        return found | ({"loss": 0.0} if losses else {})

    def initial_blobs(self, layers: Iterable[str] | None = None) -> dict[str, tuple[Array, ...]]:
        """Return arrays of the parameters' shapes."""
        return {layer: self._like(layer) for layer in (self.params if layers is None else layers)}

    def _like(self, layer: str) -> tuple[Array, ...]:
        """Return arrays for a layer's parameters. They have Caffe's order in memory; only blobs are
        laid out as images."""
        params = self.params[layer]
        return tuple(
            self.ops.empty((math.prod(p.shape),), self.dtype).reshape(p.shape) for p in params
        )


class NoBatches(Batches):
    """Batches with the right number of rows for a net that reads no data."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.divisible = False  # arrays of zeros would take memory when they are joined

    def samples(
        self, low: int, high: int, into: Into | None = None
    ) -> tuple[NDArray[np.float32], ...]:
        """Return zeros that take no memory, in the shapes of the source's samples."""
        rows = len(self.positions(low, high))
        return tuple(np.broadcast_to(np.float32(0), (rows, *shape)) for shape in self.shapes)
