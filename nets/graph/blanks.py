"""Numbers that stand in for a net's inputs in a pass whose results do not count: to compile, or to
measure time."""

from __future__ import annotations

from collections.abc import Iterator

from nets.graph.graph import Net
from nets.layers.softmax import ClassLayer


def blanks(net: Net) -> dict[str, float]:
    """The number that may fill each input of `net`: 0, a label that every loss takes. Labels that
    are probabilities of C classes get 1 / C."""
    found = dict.fromkeys(net.inputs, 0.0)
    for node in net.nodes:
        layer = node.layer
        if isinstance(layer, ClassLayer) and layer.soft:
            _, labels = node.bottoms[:2]
            found.update(dict.fromkeys(_origins(net, labels), 1 / layer.classes))
    return found


def _origins(net: Net, value: int) -> Iterator[str]:
    """Yield the inputs that a value is made from, through layers such as Reshape."""
    made = net.wiring.values[value]
    if made.name in net.inputs:
        yield made.name
        return
    for below in net.wiring.nodes[made.producer].bottoms:
        yield from _origins(net, below)
