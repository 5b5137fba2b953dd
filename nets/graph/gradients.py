"""The gradients of one pass: gradients of values, summed over their readers, and gradients of
parameters, summed over the layers that share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nets.graph.sharing import Sharing, Slot
from nets.graph.wiring import Node, Wiring
from ops import Array, Backend


class Gradients:
    """The gradients that a backward pass has found so far. `sums` has the arrays for sums of
    gradients, by the index of the value."""

    def __init__(self, wiring: Wiring, sharing: Sharing, ops: Backend, dtype: Any) -> None:
        self._wiring = wiring
        self._sharing = sharing
        self._ops = ops
        self._dtype = dtype
        self.sums: dict[int, Array] = {}
        self._of: dict[int, Array] = {}
        self._second: dict[int, tuple[Array]] = {}  # second parts of gradients
        self._seeds: dict[int, Array] = {}
        self._borrowed: dict[Slot, Array] = {}  # from borrowers, kept for the owner

    def begin(self) -> None:
        """Forget the gradients of the pass before."""
        self._of = {}
        self._second = {}
        self._borrowed = {}

    def of(self, i: int) -> Array | None:
        """Return the gradient of value `i`, None if backward has not reached it."""
        return self._of.get(i)

    def parts(self, i: int) -> list[Array | None]:
        """Return the gradient of value `i`, as its two parts if they are kept apart."""
        return [self.of(i), *self._second.get(i, ())]

    def put(self, i: int, parts: Sequence[Array | None]) -> None:
        """Make these the parts of the gradient of value `i`."""
        first, *second = parts
        if first is not None:
            self._of[i] = first
        if second:
            self._second[i] = (second[0],)  # type: ignore[assignment]

    def add(self, i: int, grad: Array) -> None:
        """Add a gradient to value `i`. The first gradient is kept by reference; the sum of two is
        another array, unless they are kept apart."""
        known = self._of.get(i)
        if known is not None and self._wiring.values[i].apart:
            self._second[i] = (grad,)
            return
        self._of[i] = grad if known is None else self._ops.add(known, grad, out=self.sums.get(i))

    def seed(self, node: Node) -> None:
        """Give each top that is part of the loss its loss weight as gradient."""
        for i, weight in zip(node.tops, node.layer.loss_weights, strict=True):
            if weight:
                seed = self._seeds.get(i)
                shape = self._wiring.values[i].shape
                if seed is None or seed.shape != shape:
                    # such a gradient stays on the host, so that no device is asked for it
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
        """Keep the gradients of borrowed parameters for their owners. Return the gradients of owned
        parameters, with the kept ones added."""
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
