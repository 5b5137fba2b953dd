"""The gradients of one pass: of values, summed over their readers, and of parameters, summed over
who shares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nets.graph.sharing import Sharing, Slot
from nets.graph.wiring import Node, Wiring
from ops import Array, Backend


class Gradients:
    """What a backward pass has found so far. `sums` are places for sums of values' gradients, by
    the value's index."""

    def __init__(self, wiring: Wiring, sharing: Sharing, ops: Backend, dtype: Any) -> None:
        self._wiring = wiring
        self._sharing = sharing
        self._ops = ops
        self._dtype = dtype
        self.sums: dict[int, Array] = {}
        self._of: dict[int, Array] = {}
        self._seeds: dict[int, Array] = {}
        self._borrowed: dict[Slot, Array] = {}  # from borrowers, until the owner's turn

    def begin(self) -> None:
        """Forget those of the pass before."""
        self._of = {}
        self._borrowed = {}

    def of(self, i: int) -> Array | None:
        """The gradient of value `i`, if backward has reached it."""
        return self._of.get(i)

    def add(self, i: int, grad: Array) -> None:
        """Add a gradient to value `i`; the first is kept by reference, the sum of two is another
        array."""
        known = self._of.get(i)
        self._of[i] = grad if known is None else self._ops.add(known, grad, out=self.sums.get(i))

    def seed(self, node: Node) -> None:
        """Give the tops that are part of the loss their weight as gradient."""
        for i, weight in zip(node.tops, node.layer.loss_weights, strict=True):
            if weight:
                seed = self._seeds.get(i)
                shape = self._wiring.values[i].shape
                if seed is None or seed.shape != shape:
                    # then the host keeps it: no device is asked for it
                    alone = shape == () and self.of(i) is None
                    seed = (
                        np.zeros((), self._dtype) if alone else self._ops.zeros(shape, self._dtype)
                    )
                    seed += weight
                    self._seeds[i] = seed
                self.add(i, seed)

    def settle(
        self, node: Node, params: Sequence[Array], out: Sequence[Array] | None
    ) -> tuple[Array, ...]:
        """Keep the gradients of borrowed parameters for their owners; return the owned ones plus
        what was kept."""
        result: list[Array] = []
        for at, grad in enumerate(params):
            owner = self._sharing.owner.get((node.index, at))
            slot = owner or (node.index, at)
            kept = self._borrowed.pop(slot, None)
            total = grad if kept is None else self._ops.add(kept.reshape(grad.shape), grad)
            if owner is not None:
                self._borrowed[slot] = total
                continue
            if out is not None and total is not out[len(result)]:
                out[len(result)][...] = total
                total = out[len(result)]
            result.append(total)
        return tuple(result)
