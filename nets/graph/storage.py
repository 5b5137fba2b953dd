"""Storage: which values of a net, and their gradients, are kept in bfloat16.

A value is an activation as it lies in memory. It may be bfloat16 if the layer that makes it and all
layers that read it can hold it so (`Layer.holds_bfloat16`), on a backend whose operations take such
arrays (`Backend.stores_bfloat16`). Values that enter or leave the process, outputs and losses stay
in the net's dtype, and so do parameters, statistics and all sums. Only images (N, C, H, W) are
bfloat16: other values are small.

A value and its gradient have one dtype. Values that share memory have one dtype: the top and bottom
of a layer that is a view or writes in place, and of a layer whose bottom gets the top's gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from nets.graph.wiring import Node, Wiring
from nets.layers.base import GRADIENT, TOP
from ops import BFLOAT16, Backend


def store(wiring: Wiring, nodes: Sequence[Node], ops: Backend, fixed: Collection[int]) -> None:
    """Set the dtype of each value that `nodes` make and keep in bfloat16, and of their layers'
    buffers. `fixed`: values that keep the net's dtype.

    Call this after `join`. The dtype of all other values stays None, which means the net's.
    """
    if not ops.stores_bfloat16 or any(node.layer.dtype != np.float32 for node in nodes):
        return
    made = [i for node in nodes for i in node.tops]
    mine = {node.index for node in nodes}
    able = set(made) - set(fixed) - set(_refused(wiring, nodes))
    able = {i for i in able if mine.issuperset(wiring.values[i].consumers)}
    for group in _groups(made, nodes):
        if able.issuperset(group):
            for i in group:
                wiring.values[i].dtype = BFLOAT16
    for node in nodes:
        _tell(wiring, node)


def _refused(wiring: Wiring, nodes: Iterable[Node]) -> Iterator[int]:
    """The values that a layer cannot read or write as bfloat16."""
    for node in nodes:
        layer = node.layer
        for at, i in enumerate(node.bottoms):
            if not layer.holds_bfloat16(at):
                yield i
        for i, weight in zip(node.tops, layer.loss_weights, strict=True):
            value = wiring.values[i]
            kept = weight or not value.consumers or len(value.shape) != 4
            if kept or not layer.holds_bfloat16():
                yield i
        if not layer.holds_bfloat16():
            yield from node.also


def _groups(made: Sequence[int], nodes: Iterable[Node]) -> Iterator[set[int]]:
    """The values in groups of one dtype. A group with a value that no layer here makes has that
    value, too."""
    group_of = {i: {i} for i in made}
    for node in nodes:
        layer = node.layer
        if layer.in_place or layer.views or layer.passes_gradient:
            joined = set[int]()
            for i in (*node.bottoms, *node.tops):
                joined |= group_of.get(i, {i})
            for i in joined:
                group_of[i] = joined
    yield from {id(group): group for group in group_of.values()}.values()


def _tell(wiring: Wiring, node: Node) -> None:
    """Tell the layer the dtypes of its buffers."""
    bottoms = [wiring.values[i] for i in node.bottoms]
    tops = [wiring.values[i] for i in node.tops]
    shapes = [value.shape for value in bottoms], [value.shape for value in tops]
    node.layer.dtypes = {}
    if not node.layer.planned:
        return
    for need in node.layer.needs(*shapes, training=True):
        values = {TOP: tops, GRADIENT: bottoms}.get(need.life)
        if values is not None and need.dtype is None and values[need.at].dtype is not None:
            node.layer.dtypes[need.key] = values[need.at].dtype
