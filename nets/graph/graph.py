"""A net that runs, or its conv phase or FC phase: stage by stage, forward and backward.

One pass: `begin`, `feed` every input, `load` the parameters of each stage and `forward` it, then
`backward` the stages in reverse order. Arrays are passed by reference. Gradients of parameters and
values that cross the cut are new arrays in every pass, so they may be sent. Every other array is
valid until the next pass.

A parameter that several layers share belongs to the first of them. Only the first layer loads it,
and only the first layer returns its gradient, the sum over all. The gradient of a running statistic
is the term that the pass adds to it (`ParamSpec.keep`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nets.errors import NetError
from nets.graph.repeated_net import RepeatedNet
from nets.graph.stages import Stage as Stage  # this module exports it
from nets.graph.streams import turned
from nets.graph.wiring import Node
from nets.layers import Values
from ops import Array, OpsError


class Net(RepeatedNet):
    """A `FedNet` that computes, one pass at a time. It takes the arguments of `PartOfNet`."""

    def forward(self, stage: Stage) -> None:
        """Run the layers of `stage`. Its inputs and parameters must have been given."""
        for node in stage.nodes:
            bottoms = [self._given(i) for i in (*node.bottoms, *node.also)]
            try:
                tops = node.layer.forward(
                    bottoms, self._parameters(node), node.layer.seen(self._run)
                )
            except OpsError as error:
                raise node.layer.error("", str(error)) from None
            self._arrays.update(zip(node.tops, tops, strict=True))

    def backward(self, stage: Stage, out: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """Run `stage` backward. Return its parameters' gradients, which are new arrays or are
        written to `out`."""
        result: tuple[Array, ...] = ()
        for node in reversed(stage.nodes):
            if node.runs_back:
                owns = node.layer.name == stage.layer
                result = self._backward_node(node, out if owns else None) or result
        return result

    def blob(self, name: str) -> Array:
        """Return blob `name` of this pass (its last value) in the net's dtype."""
        i = self._index(name)
        if self._reuses and name not in (*self.outputs, *self.inputs, *self.boundary):
            raise NetError(
                f"blob '{name}': its memory is reused in the pass; build the net with "
                "memory='kept' to read it"
            )
        found = self._given(i)
        return found if self._value(i).dtype is None else found.astype(self.dtype)

    def grad(self, name: str) -> Array:
        """Return the gradient of boundary or input blob `name` after backward has reached it.
        Returns zeros if no gradient reached it."""
        i = self._inputs[name] if name in self._inputs else self._index(name)
        found = self._gradients.of(i)
        if found is None:
            return self.ops.zeros(self._value(i).shape, self.dtype)
        return found if self._value(i).dtype is None else found.astype(self.dtype)

    def blob_rows(self, name: str) -> Array:
        """Return boundary blob `name` of this pass with its rows on axis 0."""
        return self.blob(name) if self.streams is None else turned(self.blob(name))

    def grad_rows(self, name: str) -> Array:
        """Return the gradient of boundary or input blob `name` with its rows on axis 0."""
        return self.grad(name) if self.streams is None else turned(self.grad(name))

    def scalars(self) -> dict[str, float]:
        """Return every loss and accuracy that was computed in this pass, and their weighted total
        under "loss".

        Every top with a loss weight counts, by the sum of its numbers, as in Caffe.
        """
        return self.scalars_later()()

    def scalars_later(self) -> Callable[[], dict[str, float]]:
        """Return a function that waits for `scalars()` of this pass. It may be called in a later
        pass."""
        return self.results().scores()

    def label_counts(self) -> tuple[int, ...]:
        """Return the counts of the last layer that counts labels in a test (its `label_counts`)."""
        return next(filter(None, (node.layer.label_counts() for node in reversed(self.nodes))), ())

    def run(
        self, inputs: Mapping[str, Any], blobs: Mapping[str, Sequence[Array]], step: int = 0
    ) -> dict[str, float]:
        """Run the whole part forward on the whole batch and return `scalars()`."""
        self.begin(step)
        for name, array in inputs.items():
            self.feed(name, array)
        for stage in self.stages:
            if stage.layer is not None:
                self.load(stage.layer, blobs[stage.layer])
            self.forward(stage)
        return self.scalars()

    # inside

    def _backward_node(self, node: Node, out: Sequence[Array] | None) -> tuple[Array, ...]:
        self._gradients.seed(node)
        grads = [part for i in node.tops for part in self._gradients.parts(i)]
        statistics = any(param.keep is not None for param in node.layer.params)
        if not statistics and all(grad is None for grad in grads):
            # no loss depends on the layer
            if node.layer.frozen:
                return ()
            zeros = [self.ops.zeros(param.shape, self.dtype) for param in node.layer.params]
            return self._gradients.settle(node, zeros, out)
        values = Values(
            [self._given(i) for i in node.bottoms],
            [self._given(i) for i in node.tops],
            self._parameters(node),
        )
        direct = out if len(self._owned[node.index]) == len(node.layer.params) else None
        bottoms, params = node.layer.backward(
            grads, values, node.layer.seen(self._run), node.wanted, direct
        )
        for i, grad in zip(node.bottoms, bottoms, strict=True):
            if grad is not None:
                self._gradients.add(i, grad)
        return () if node.layer.frozen else self._gradients.settle(node, params, out)
