"""The parts of arrays that a shard has, and a link of a chain as a separate net."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nets.definition.spec import LayerSpec, NetSpec
from nets.graph.graph import Net
from nets.graph.wiring import Node, Value
from nets.schema import caffe_pb2 as caffe
from nets.sharding.chain import Link
from ops import Array


@dataclass(frozen=True)
class Slice:
    """The part [low, high) along `axis` of an array that has the size `total` on this axis."""

    axis: int
    low: int
    high: int
    total: int

    def of(self, whole: Array) -> Array:
        """Return the part of a whole array, as a view."""
        return whole[(slice(None),) * self.axis + (slice(self.low, self.high),)]


def units(rank: int, of: int, total: int) -> tuple[int, int]:
    """Return the units [low, high) of shard `rank`. All shards have nearly the same number."""
    return total * rank // of, total * (rank + 1) // of


def unit_parts(total: int, parts: int, rank: int = 0, of: int = 1) -> list[slice]:
    """Return the units of shard `rank`, cut as if `parts` shards divided all units. Both numbers of
    shards are powers of two.

    If there are fewer units than `parts`, fewer parts are made, so that no part is empty.
    """
    parts = min(parts, 1 << (total.bit_length() - 1))
    low, _ = units(rank, of, total)
    cuts = [
        units(part, parts, total) for part in range(parts * rank // of, parts * (rank + 1) // of)
    ]
    return [slice(first - low, last - low) for first, last in cuts]


def slices_of(node: Node, rank: int, of: int) -> tuple[Slice, ...]:
    """Return the part of an InnerProduct's parameters that shard `rank` has. Raises NetError if
    there are fewer units than shards."""
    param = node.layer.proto.inner_product_param
    if param.num_output < of:
        text = f"found {param.num_output}, expected at least {of}: so many servers divide its units"
        raise node.layer.error("inner_product_param.num_output", text)
    low, high = units(rank, of, param.num_output)
    axes = (1 if param.transpose else 0, 0)
    return tuple(
        Slice(axis, low, high, param.num_output) for axis in axes[: len(node.layer.params)]
    )


def link_net(
    kind: type[Net],
    spec: NetSpec,
    phase: str,
    link: Link,
    values: list[Value],
    count: int,
    **options: Any,
) -> Net:
    """Return a link as a net of class `kind`: an Input layer for the `values` that it reads, its
    layers, and its InnerProduct with `count` units."""
    entry = caffe.LayerParameter(
        name="(what this link reads)", type="Input", top=[value.name for value in values]
    )
    for value in values:
        entry.input_param.shape.add(dim=value.shape)
    layers = [LayerSpec(entry, spec.where)] if values else []
    layers += [_spec_of(node, count if node is link.dense else 0) for node in link.nodes]
    through = [value.name for value in values if value.needs_grad]
    return kind(replace(spec, layers=tuple(layers)), phase, part="link", through=through, **options)


def _spec_of(node: Node, count: int) -> LayerSpec:
    proto = caffe.LayerParameter()
    proto.CopyFrom(node.layer.proto)
    if count:
        proto.inner_product_param.num_output = count
    return LayerSpec(proto, node.layer.where, node.layer.frozen)
