"""A net that computes a batch in micro-batches, cut by the batch alone, and adds up their gradients
in one tree.

With 1, 2, 4 or 8 members, the same rows are computed together, and the same sums are made in the
same order. Whether one member computes or several, and whichever actors add up behind them, the
bits do not depend on the number of members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from nets import Net, NetError, ParamSpec, Stage
from nets.sharding.division import ShardedNet
from ops import Array, Backend
from roles.learning.batch_split import micro_cuts
from roles.messages import Blobs

Span = tuple[int, int]  # rows [low, high)
Kind = TypeVar("Kind", Net, ShardedNet)


class Micro(Generic[Kind]):
    """The common part of all micro-batches, whatever computes them: rows in, rows out, scores.

    A batch is cut into `count` micro-batches, a power of two. `build` makes a net for one of them.
    """

    def __init__(self, build: Callable[[], Kind], count: int) -> None:
        first = build()
        self._build: Callable[[], Kind] = build
        self._made: list[Kind] = [first]
        self._cuts: list[Span] = []  # this pass's micro-batches, as rows of the member
        self.count = count
        self.places: list[int] = []  # their numbers among the batch's micro-batches
        self.ops: Backend = first.ops
        self.dtype: np.dtype[Any] = first.dtype
        self.batch: int = first.batch
        self.phase: str = first.phase
        self.streams = getattr(first, "streams", None)
        self.params: Mapping[str, tuple[ParamSpec, ...]] = first.params
        self.inputs: list[str] = first.inputs
        self.boundary_grads: list[str] = first.boundary_grads

    def __repr__(self) -> str:
        return f"<{self.count} micro-batches of {self._made[0]!r}>"

    @property
    def _nets(self) -> list[Kind]:
        found: list[Kind] = self._made[: len(self._cuts)]
        return found

    def begin(self, step: int, *spans: Span) -> None:
        """Start a pass over these rows of the batch. They must be whole micro-batches."""
        cuts = list(enumerate(pairwise(micro_cuts(self.batch, self.count))))
        found = [
            (place, cut)
            for span in spans
            for place, cut in cuts
            if span[0] <= cut[0] < cut[1] <= span[1]
        ]
        if sum(high - low for _, (low, high) in found) != sum(high - low for low, high in spans):
            raise NetError(f"rows: found {spans}, expected whole micro-batches of {self!r}")
        while len(self._made) < len(found):
            self._made.append(self._build())
        ends = list(accumulate((high - low for _, (low, high) in found), initial=0))
        self._cuts = list(pairwise(ends))
        self.places = [place for place, _ in found]
        for net, (_, cut) in zip(self._nets, found, strict=True):
            net.begin(step, cut)

    def feed_rows(self, name: str, array: Any) -> None:
        """Give an input blob, with all of the member's rows."""
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            net.feed_rows(name, array[low:high])

    def load(self, layer: str, blobs: Sequence[Array]) -> None:
        """Give a layer's parameters for this pass."""
        for net in self._nets:
            net.load(layer, blobs)

    def grad_rows(self, name: str) -> Array:
        """The gradient of a blob that crossed the cut, for all of the member's rows."""
        return self._rows([net.grad_rows(name) for net in self._nets])

    def initial_blobs(self) -> dict[str, Blobs]:
        """The initial parameters, as from a Net."""
        found: dict[str, Blobs] = self._made[0].initial_blobs()
        return found

    def scalars(self) -> dict[str, float]:
        """Losses and scores of the pass, as means over the member's rows."""
        found: dict[str, float] = {}
        rows = sum(high - low for low, high in self._cuts)
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            for name, value in net.scalars().items():
                found[name] = found.get(name, 0.0) + value * (high - low) / rows
        return found

    def _rows(self, parts: Sequence[Array]) -> Array:
        """The rows of all micro-batches, in host memory."""
        found = [self.ops.to_host(part) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)


class MicroBatches(Micro[Net]):
    """A replacement for a net, with the same calls. For every micro-batch, a net of its own does
    each call."""

    def __init__(self, build: Callable[[], Net], count: int) -> None:
        super().__init__(build, count)
        first = self._made[0]
        self.stages = first.stages
        self.boundary = first.boundary

    def forward(self, stage: Stage) -> None:
        """Run the layers of `stage` on every micro-batch."""
        for net in self._nets:
            net.forward(net.stages[stage.index])

    def backward(self, stage: Stage, out: Sequence[Array] | None = None) -> Blobs:
        """Run `stage` backward on every micro-batch. Return the sums of its parameters' gradients.

        They are added in pairs, and these sums in pairs. Actors that add up the members' sums
        continue in the same way.
        """
        found = [net.backward(net.stages[stage.index]) for net in self._nets]
        into: Sequence[Array | None] = out or [None] * len(found[0])
        return tuple(
            self._sum(parts, place)
            for parts, place in zip(zip(*found, strict=True), into, strict=True)
        )

    def _sum(self, parts: Sequence[Array], out: Array | None) -> Array:
        if len(parts) > 1:
            return self.ops.add_all(parts, out)
        return self.ops.copy(parts[0], out) if out is not None else parts[0]

    def blob_rows(self, name: str) -> Array:
        """A boundary blob of this pass, with all of the member's rows."""
        return self._rows([net.blob_rows(name) for net in self._nets])

    def set_grad_rows(self, name: str, array: Any) -> None:
        """Give the gradient of a boundary blob, with all of the member's rows."""
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            net.set_grad_rows(name, array[low:high])

    def states(self) -> dict[str, Array]:
        """The states of recurrent layers, as from a Net, of all of the member's streams."""
        found = [net.states() for net in self._nets]
        return {name: self._rows([of[name] for of in found]) for name in (found or [{}])[0]}

    def set_states(self, states: Mapping[str, Array]) -> None:
        """Let the next pass start from these states of all of the member's streams."""
        for net, (low, high) in zip(self._nets, self._cuts, strict=True):
            net.set_states({name: state[low:high] for name, state in states.items()})


WorkerNet = Net | MicroBatches  # the nets of a worker
