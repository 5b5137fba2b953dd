"""The part that one of n servers has of a net's FC phase, which is divided by output units.

Shard j has rows [low, high) of every InnerProduct's weight and bias, and all other parameters
whole. `division` has its passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nets.definition.params import ParamSpec
from nets.definition.spec import NetSpec
from nets.errors import NetError
from nets.graph.sharing import share
from nets.graph.wiring import Node, wire
from nets.layers import Setup, make_layer
from nets.layers.base import Shape
from nets.schema import caffe_pb2 as caffe
from nets.sharding.chain import KIND, Link, chain_of
from nets.sharding.slices import Slice, slices_of, units
from ops import Array, Backend

Blobs = tuple[Array, ...]
Slot = tuple[str, int]  # a layer and the index of one of its parameters


class Shard:
    """Shard number `rank` of `of` shards of the FC phase of `spec`, which has one phase's layers.
    Raises NetError as `chain_of` does."""

    def __init__(
        self,
        spec: NetSpec,
        phase: str,
        *,
        rank: int,
        of: int,
        ops: Backend,
        batch: int | None,
        input_shape: Shape | Mapping[str, Shape] | None,
        seed: int,
        dtype: Any,
    ) -> None:
        if not 0 <= rank < of:
            raise NetError(f"shard: found number {rank} of {of}, expected 0 to {of - 1}")
        self.spec = spec
        self.phase = phase
        self.rank = rank
        self.of = of
        self.ops = ops
        self.seed = seed
        self.dtype = np.dtype(dtype)
        self._wiring = wire(
            spec.layers,
            Setup(phase, batch, input_shape),
            lambda layer: make_layer(layer, ops, dtype),
        )
        self._links = chain_of(
            self._wiring, share([node.layer for node in self._wiring.nodes]), spec.name
        )
        self.last = len(self._links) - 1
        self.batch = self._batch()
        self.whole_params: dict[str, tuple[ParamSpec, ...]] = {}
        self.whole_frozen: dict[str, tuple[ParamSpec, ...]] = {}
        self.slices: dict[str, tuple[Slice | None, ...]] = {}
        for link in self._links:
            self._share_out(link)

    def __repr__(self) -> str:
        return (
            f"<shard {self.rank} of {self.of} of {self.spec.name} {self.phase}: "
            f"{len(self._links)} links>"
        )

    @property
    def inputs(self) -> list[str]:
        """The blobs that cross from the conv phase, in the order in which it makes them."""
        return [self._wiring.values[i].name for i in self._wiring.boundary]

    @property
    def input_shapes(self) -> list[Shape]:
        """The shapes of `inputs`, without the rows."""
        return [self._wiring.values[i].shape[1:] for i in self._wiring.boundary]

    @property
    def boundary_grads(self) -> list[str]:
        """The `inputs` through which gradients flow back."""
        return [
            self._wiring.values[i].name
            for i in self._wiring.boundary
            if self._wiring.values[i].needs_grad
        ]

    def initial_blobs(self) -> dict[str, Blobs]:
        """Return the first parameters of this shard, which are cut from the whole net's numbers."""
        return {
            layer: tuple(
                self.ops.asarray(self.part_of(layer, at, param.initial(self.seed, self.dtype)))
                for at, param in enumerate(params)
            )
            for layer, params in self.whole_params.items()
        }

    def part_of(self, layer: str, at: int, whole: Array) -> Array:
        """Return this shard's part of an array for parameter `at` of a layer, as a new array."""
        piece = self.slices[layer][at]
        return np.array(whole if piece is None else piece.of(whole), order="C")

    def parts_of(self, layer: str, blobs: Sequence[Array]) -> Blobs:
        """Return this shard's parts of all parameters of a layer."""
        return tuple(self.part_of(layer, at, blob) for at, blob in enumerate(blobs))

    def exchanges(self, link: int) -> bool:
        """Whether each shard has only a part of some gradients of `link`, so that they must be
        added up."""
        return (
            self.of > 1 and 0 < link < self.last and (self._flows(link) or bool(self.partial(link)))
        )

    def partial(self, link: int) -> list[Slot]:
        """Return the learned parameters (layer, index) before the InnerProduct of a link.

        Each shard has the part of their gradients that comes through its own units.
        """
        inner = self._links[link].nodes if self.of > 1 and 0 < link < self.last else []
        dense = self._links[link].dense
        nodes = [node for node in inner if node is not dense and not node.layer.frozen]
        return [
            (node.layer.name, at)
            for node in nodes
            for at, p in enumerate(node.layer.params)
            if p.keep is None
        ]

    def fits(self, link: int, rank: int, values: Sequence[Array], *, backward: bool) -> bool:
        """Whether these arrays are what shard `rank` sends to this one after a link (`forward`,
        `parts`), for any number of rows."""
        if not backward <= link < self.last:
            return False
        dense, whose = (link - 1, self.rank) if backward else (link, rank)
        widths = [self._width(dense, whose)] if not backward or self._flows(link) else []
        others = [
            self.whole_params[layer][at].shape
            for layer, at in (self.partial(link) if backward else ())
        ]
        found = [value.shape for value in values[len(widths) :]]
        columns = [value.shape[-1] if value.ndim > 1 else 0 for value in values[: len(widths)]]
        return (
            columns == widths
            and found == others
            and all(value.dtype == self.dtype for value in values)
        )

    def sent(self, link: int, rank: int) -> tuple[int, int]:
        """Return how many numbers this shard sends to shard `rank` for a link, forward and
        backward: for each row, and once per pass."""
        back, once = self.sent_back(link, rank)
        return self.sent_on(link) + back, once

    def sent_on(self, link: int) -> int:
        """Return how many numbers per row it sends to every other shard after `forward(link)`."""
        return self._width(link, self.rank)

    def sent_back(self, link: int, rank: int) -> tuple[int, int]:
        """Return how many numbers it sends to shard `rank` after `backward(link)`: for each row,
        and once per pass."""
        if not self.exchanges(link):
            return 0, 0
        back = self._width(link - 1, rank) if self._flows(link) else 0
        return back, sum(
            math.prod(self.whole_params[layer][at].shape) for layer, at in self.partial(link)
        )

    @property
    def means(self) -> bool:
        """Whether every loss is a mean over rows, so that some rows can be weighted differently."""
        return all(
            getattr(node.layer, "normalization", "") != "NONE" for node in self._links[-1].nodes
        )

    @property
    def rounding(self) -> list[str]:
        """The layers before an InnerProduct that do more to a gradient than pass it on, stop it or
        double it.

        The sum of their gradients over the shards' parts differs in the last bits from their
        gradient of the sum.
        """
        between = [
            node for link in self._links[:-1] for node in link.nodes if node is not link.dense
        ]
        return [node.layer.name for node in between if self.of > 1 and not _exact(node.layer.proto)]

    # inside

    def _batch(self) -> int:
        """Return the rows of the whole batch. Every value that crosses the cut must have so
        many."""
        values = [self._wiring.values[i] for i in self._wiring.boundary]
        rows = {value.name: value.shape[0] if value.shape else 0 for value in values}
        if len(set(rows.values())) != 1:
            raise NetError(
                f"net '{self.spec.name}': the blobs that cross the cut have {rows} rows, "
                "expected the same number in each"
            )
        return next(iter(rows.values()))

    def _share_out(self, link: Link) -> None:
        """Store the whole parameters of a link's layers and this shard's part of them."""
        for node in link.nodes:
            params = tuple(node.layer.params)
            if params:
                mine = (
                    slices_of(node, self.rank, self.of)
                    if node is link.dense
                    else (None,) * len(params)
                )
                whole = self.whole_frozen if node.layer.frozen else self.whole_params
                whole[node.layer.name], self.slices[node.layer.name] = params, mine

    def _dense(self, link: int) -> Node:
        node = self._links[link].dense
        if node is None:
            raise NetError(f"link {link} of {self!r} does not end with an {KIND}")
        return node

    def _name(self, link: int) -> str:
        """Return the name of the blob at the end of `link`."""
        return self._wiring.values[self._dense(link).tops[0]].name

    def _total(self, link: int) -> int:
        """Return the number of units of the InnerProduct at the end of `link`."""
        return int(self._dense(link).layer.proto.inner_product_param.num_output)

    def _width(self, link: int, rank: int) -> int:
        low, high = units(rank, self.of, self._total(link))
        return high - low

    def _flows(self, link: int) -> bool:
        """Whether a gradient flows from `link` to the link before it."""
        return link > 0 and self._wiring.values[self._dense(link - 1).tops[0]].needs_grad


def _exact(layer: caffe.LayerParameter) -> bool:
    """Whether the layer only multiplies a gradient by 0 or a power of two."""
    if layer.type == "ReLU":
        return layer.relu_param.negative_slope == 0
    if layer.type in ("Dropout", "StochasticDepth"):
        return math.frexp(1 - layer.dropout_param.dropout_ratio)[0] == 0.5
    return layer.type in ("Flatten", "Reshape")
