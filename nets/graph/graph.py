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

from collections.abc import Mapping, Sequence
from typing import Any

from nets.graph.replaying_net import ReplayingNet
from nets.graph.stages import Stage as Stage  # this module exports it
from nets.graph.wiring import Node
from nets.layers import Values
from ops import Array, OpsError


class Net(ReplayingNet):
    """A `FedNet` that computes, one pass at a time. It takes the arguments of `PartOfNet`."""

    def forward(self, stage: Stage) -> None:
        """Run the layers of `stage`. Its inputs and parameters must have been given."""
        for piece in self._pieces_of(stage):
            if piece.replayable:
                self._replay_forward(piece)
            else:
                self._forward_nodes(piece.nodes)

    def backward(self, stage: Stage, out: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """Run `stage` backward. Return its parameters' gradients, which are new arrays or are
        written to `out`."""
        result: tuple[Array, ...] = ()
        for piece in reversed(self._pieces_of(stage)):
            # gradients of parameters without a place are new arrays
            if piece.replayable and piece.back and (out is not None or not piece.learned):
                found = self._replay_backward(piece, stage.layer, out if piece.learned else None)
            else:
                found = self._backward_nodes(piece.back, stage.layer, out)
            result = found or result
        return result

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

    def _forward_nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            bottoms = [self._given(i) for i in (*node.bottoms, *node.also)]
            try:
                tops = node.layer.forward(
                    bottoms, self._parameters(node), node.layer.seen(self._run)
                )
            except OpsError as error:
                raise node.layer.error("", str(error)) from None
            self._arrays.update(zip(node.tops, tops, strict=True))

    def _backward_nodes(
        self, nodes: Sequence[Node], owner: str | None, out: Sequence[Array] | None
    ) -> tuple[Array, ...]:
        """Run nodes backward, in this order. Return the gradients of the parameters of the layer
        `owner`, if it is among them."""
        result: tuple[Array, ...] = ()
        for node in nodes:
            result = self._backward_node(node, out if node.layer.name == owner else None) or result
        return result

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
