"""The size of a net and the amount of its computation: weights, activations, FLOPs and memory, per
layer and per phase.

All numbers follow from shapes; no array is made. FLOPs count a multiplication and an addition as
two operations, in the matrix products only (Omnivore, appendix B.1). There is one product forward,
one backward for the weights, and one backward for the data unless no layer below learns.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from nets.graph.graph import Net
from nets.layers.base import Layer, Shape


@dataclass(frozen=True)
class LayerVolume:
    """One layer at the net's batch size. Sizes count numbers; `forward` and the two backward parts
    count FLOPs.

    `inputs`, `outputs`: the numbers that the layer reads and writes. `kept`: outputs that take
    their own memory (outputs of an in-place layer do not). `lowered`: the matrix that a convolution
    makes of one image. `part`: "conv" or "fc".
    """

    name: str
    kind: str
    part: str
    weights: int
    biases: int
    inputs: int
    outputs: int
    kept: int
    lowered: int
    forward: int
    backward_weights: int
    backward_data: int

    @property
    def parameters(self) -> int:
        """Weights and biases, in numbers."""
        return self.weights + self.biases

    @property
    def backward(self) -> int:
        """FLOPs of the backward pass."""
        return self.backward_weights + self.backward_data


@dataclass(frozen=True)
class Volumes:
    """The layers of a net, or of one of its phases."""

    batch: int
    layers: tuple[LayerVolume, ...] = field(repr=False)
    number: int = 4  # bytes per number

    def part(self, name: str) -> Volumes:
        """Return the layers of the phase "conv" or "fc"."""
        return dataclasses.replace(
            self, layers=tuple(layer for layer in self.layers if layer.part == name)
        )

    @property
    def parameters(self) -> int:
        """The number of all learnable numbers, including biases."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def weight_bytes(self) -> int:
        """|W| of FireCaffe's equation 1: the bytes of the weights of all layers with products,
        without biases."""
        return self.number * sum(layer.weights for layer in self.layers)

    @property
    def data_bytes(self) -> int:
        """|D| of FireCaffe's equation 2, as in its table 1: the bytes that layers with weights
        read.

        The printed equation also multiplies by the number of filters, which gives hundreds of times
        the values of the table.
        """
        return self.number * sum(layer.inputs for layer in self.layers if layer.forward)

    @property
    def forward(self) -> int:
        """FLOPs of the forward pass."""
        return sum(layer.forward for layer in self.layers)

    @property
    def backward(self) -> int:
        """FLOPs of the backward pass."""
        return sum(layer.backward for layer in self.layers)

    def memory(self, lowered_images: int = 1) -> Memory:
        """Return the memory for training this net if `lowered_images` are lowered at once
        (Omnivore's b_p)."""
        parameters = self.number * self.parameters
        activations = self.number * sum(layer.kept for layer in self.layers)
        lowered = (
            self.number * max((layer.lowered for layer in self.layers), default=0) * lowered_images
        )
        return Memory(parameters, parameters, parameters, activations, activations, lowered)


@dataclass(frozen=True)
class Memory:
    """An upper bound of the bytes of one training process with SGD: every activation has a
    gradient, and no memory is reused."""

    parameters: int
    gradients: int
    history: int
    activations: int
    activation_gradients: int
    lowered: int

    @property
    def total(self) -> int:
        """The sum of all six parts."""
        return sum(vars(self).values())


def volumes(net: Net) -> Volumes:
    """Count every layer of `net` at its whole batch."""
    learning: set[int] = set()  # values that depend on a learned parameter
    found = []
    for node in (node for stage in net.stages for node in stage.nodes):
        layer = node.layer
        tops = _shapes(net, layer.proto.top)
        bottoms = _shapes(net, layer.proto.bottom)
        below = any(i in learning for i in node.bottoms)
        if below or layer.learns:
            learning |= set(node.tops)
        flops = 2 * layer.products(bottoms, tops)
        in_place = list(layer.proto.top) == list(layer.proto.bottom)
        weights = (
            _count(param.shape for param in layer.params if len(param.shape) > 1) if flops else 0
        )
        found.append(
            LayerVolume(
                name=layer.name,
                kind=layer.proto.type,
                part="fc" if node.in_fc else "conv",
                weights=weights,
                biases=_count(param.shape for param in layer.params) - weights,
                inputs=_count(bottoms),
                outputs=_count(tops),
                kept=0 if in_place else _count(tops),
                lowered=_lowered(layer, bottoms, tops),
                forward=flops,
                backward_weights=0 if layer.frozen else flops,
                backward_data=flops if below else 0,
            )
        )
    return Volumes(net.batch, tuple(found), net.dtype.itemsize)


def _shapes(net: Net, names: Iterable[str]) -> list[Shape]:
    return [net.shape(name) for name in names]


def _count(shapes: Iterable[Shape]) -> int:
    return sum(math.prod(shape) for shape in shapes)


def _lowered(layer: Layer, bottoms: list[Shape], tops: list[Shape]) -> int:
    """Return how many numbers the lowered matrix of one image has: a column of the window for each
    output position."""
    if layer.proto.type not in ("Convolution", "Deconvolution"):
        return 0
    small, wide = (
        (tops[0], bottoms[0]) if layer.proto.type == "Convolution" else (bottoms[0], tops[0])
    )
    return wide[1] * math.prod(layer.params[0].shape[2:]) * math.prod(small[2:])
