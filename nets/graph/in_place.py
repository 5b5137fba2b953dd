"""Layers that write over their bottoms, and layers that do the work of the next layer as they
write."""

from __future__ import annotations

from collections.abc import Sequence

from nets.graph.wiring import Node, Wiring
from nets.layers.elementwise import ReLU


def allow_in_place(wiring: Wiring, nodes: Sequence[Node], fed: set[int]) -> None:
    """Let a layer write over its bottom if no other layer reads the old value. `fed`: values that
    come from outside."""
    for node in nodes:
        names = (list(node.layer.proto.bottom), list(node.layer.proto.top))
        if not node.layer.in_place_ok or names[0] != names[1] or node.bottoms[0] in fed:
            continue
        bottom = wiring.values[node.bottoms[0]]
        maker = wiring.nodes[bottom.producer].layer
        free = (maker.top_is_free or maker.in_place) and not any(maker.loss_weights)
        node.layer.in_place = free and bottom.consumers == [node.index]
        _absorb(wiring.nodes[bottom.producer], node)


def _absorb(maker: Node, node: Node) -> None:
    """Let a product rectify as it writes, instead of a plain ReLU in place over it. This saves one
    pass over memory."""
    layer = node.layer
    if isinstance(layer, ReLU) and layer.in_place and layer.slope == 0 and maker.layer.rectifies:
        maker.layer.rectify = layer.absorbed = True


def owners(wiring: Wiring, i: int) -> list[Node]:
    """Return the layers whose buffers value `i` may be a view of."""
    node = wiring.nodes[wiring.values[i].producer]
    through = node.layer.in_place or node.layer.views or not node.layer.top_is_free
    return [node, *(owner for below in node.bottoms if through for owner in owners(wiring, below))]


def readers(wiring: Wiring, i: int) -> list[Node]:
    """Return the layers whose buffers the gradient of value `i` may be a view of."""
    nodes = [wiring.nodes[reader] for reader in wiring.values[i].consumers]
    through = [top for node in nodes if node.layer.passes_gradient for top in node.tops]
    return [*nodes, *(reader for top in through for reader in readers(wiring, top))]
