"""A net that computes a batch in micro-batches, fixed by the batch alone, and adds up their gradients in one tree.

With 1, 2, 4 or 8 members the same rows are computed together and the same sums are made in the same order, by one
member or by several and the reducers above them: the bits do not depend on the number of members.
What never lives here: how a batch is cut among the members (`shares`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nets import Net, Stage
from ops import Array
from roles.shares import micro_cuts

Blobs = tuple[Array, ...]


class MicroBatches:
    """Stands for a net where a worker uses one: the same calls, each done by one net for every micro-batch.

    A batch is cut into `count` micro-batches, a power of two; `build` makes a net for one of them.
    """

    def __init__(self, build: Callable[[], Net], count: int) -> None:
        self._build, self._count = build, count
        self._made = [build()]
        self._cuts: list[tuple[int, int]] = []  # this pass's micro-batches, as rows of the member
        first = self._made[0]
        self.ops, self.dtype, self.batch = first.ops, first.dtype, first.batch
        self.stages, self.params, self.inputs = first.stages, first.params, first.inputs
        self.boundary, self.boundary_grads = first.boundary, first.boundary_grads

    def __repr__(self) -> str:
        return f"<{self._count} micro-batches of {self._made[0]!r}>"

    @property
    def _nets(self) -> list[Net]:
        return self._made[: len(self._cuts)]

    def begin(self, step: int, rows: tuple[int, int]) -> None:
        """Start a pass over the rows [low, high) of the batch, whole micro-batches."""
        low, high = rows
        cuts = [cut for cut in pairwise(micro_cuts(self.batch, self._count)) if low <= cut[0] < cut[1] <= high]
        while len(self._made) < len(cuts):
            self._made.append(self._build())
        self._cuts = [(start - low, end - low) for start, end in cuts]
        for net, cut in zip(self._nets, cuts, strict=True):
            net.begin(step, cut)

    def feed(self, name: str, array: Any) -> None:
        """Give an input blob, of all the member's rows."""
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            net.feed(name, array[low:high])

    def load(self, layer: str, blobs: Sequence[Array]) -> None:
        """Give a layer's parameters for this pass."""
        for net in self._nets:
            net.load(layer, blobs)

    def forward(self, stage: Stage) -> None:
        """Run the layers of `stage` on every micro-batch."""
        for net in self._nets:
            net.forward(net.stages[stage.index])

    def backward(self, stage: Stage, out: Sequence[Array] | None = None) -> Blobs:
        """Run `stage` backward on every micro-batch; the sum of its parameters' gradients."""
        found = [net.backward(net.stages[stage.index]) for net in self._nets]
        total = self._sum(found)
        if out is not None:
            for place, blob in zip(out, total, strict=True):
                place[...] = blob
        return total if out is None else tuple(out)

    def _sum(self, parts: list[Blobs]) -> Blobs:
        """In pairs, and these in pairs: what reducers of two children make of the members' sums."""
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [tuple(self.ops.add(a, b) for a, b in zip(one, other, strict=True)) for one, other in pairs]
        return parts[0]

    def blob(self, name: str) -> Array:
        """A boundary blob of this pass, of all the member's rows."""
        parts = [net.ops.to_host(net.blob(name)) for net in self._nets]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def set_grad(self, name: str, array: Any) -> None:
        """Give the gradient of a boundary blob, of all the member's rows."""
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            net.set_grad(name, array[low:high])

    def scalars(self) -> dict[str, float]:
        """Losses and scores of the pass, means over the member's rows."""
        found: dict[str, float] = {}
        rows = sum(high - low for low, high in self._cuts)
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            for name, value in net.scalars().items():
                found[name] = found.get(name, 0.0) + value * (high - low) / rows
        return found


WorkerNet = Net | MicroBatches  # what a worker computes with
