"""Which layers are one operation of the backend: batch norm, its scale, the sum with a shortcut, the rectifier.

The Scale does the work of all (ops.norm_scale_forward); the others hand on what they are given. No blob goes away that
can be read by its name: between two layers that are joined, the name is used again or memory is reused. What never
lives here: arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from nets.layers.affine import Scale
from nets.layers.combine import Eltwise
from nets.layers.elementwise import ReLU
from nets.layers.normalise import BatchNorm
from nets.wiring import Node, Wiring


def join_norms(wiring: Wiring, nodes: Sequence[Node], reused: bool) -> None:
    """Let every Scale over a BatchNorm do both, and what may follow; after `allow_in_place`."""
    mine = {node.index: node for node in nodes}
    for node in nodes:
        below = mine.get(wiring.values[node.bottoms[0]].producer) if node.bottoms else None
        if below is None or not isinstance(node.layer, Scale) or not isinstance(below.layer, BatchNorm):
            continue
        learns = wiring.values[below.bottoms[0]].needs_grad
        if learns and node.layer.per_channel and _next(wiring, mine, below, reused) is node:
            node.layer.norm = below.layer
            below.layer.hand_on()
            _join_sum(wiring, mine, node, reused)
            _join_rectifier(wiring, mine, node)


def _next(wiring: Wiring, mine: dict[int, Node], node: Node, reused: bool) -> Node | None:
    """The only layer that reads the node's top, if nothing else can ask for that array."""
    value = wiring.values[node.tops[0]]
    if len(value.consumers) != 1 or value.consumers[0] not in mine or any(node.layer.loss_weights):
        return None
    reader = mine[value.consumers[0]]
    return reader if reused or value.name in list(reader.layer.proto.top) else None


def _join_sum(wiring: Wiring, mine: dict[int, Node], node: Node, reused: bool) -> None:
    """The sum of the Scale's top and something that is there before it."""
    after = _next(wiring, mine, node, reused)
    if after is None or not isinstance(after.layer, Eltwise) or not after.layer.plain_sum or len(after.bottoms) != 2:
        return
    at = after.bottoms.index(node.tops[0])
    other = after.bottoms[1 - at]
    if wiring.values[other].producer < node.index:
        node.also = [other]
        after.layer.hand_on(at)


def _join_rectifier(wiring: Wiring, mine: dict[int, Node], node: Node) -> None:
    """A plain ReLU in place over what the Scale makes."""
    scale = node.layer
    last = _next(wiring, mine, node, True) if node.also else node
    after = None if last is None else _next(wiring, mine, last, False)
    if after is not None and isinstance(after.layer, ReLU) and after.layer.in_place and after.layer.slope == 0:
        scale.rectify = after.layer.absorbed = True
        if not node.also:
            after.layer.hand_on()
