"""The losses and accuracies of a pass, as Python's numbers. The device is waited for only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nets.graph.wiring import Node, Value
from ops import Array, Backend


def scores(
    nodes: Sequence[Node], values: Sequence[Value], arrays: Mapping[int, Array], ops: Backend
) -> Callable[[], dict[str, float]]:
    """Return a function that returns every score of the layers that have run, and the weighted
    total of the losses under "loss".

    Every top with a loss weight counts, by the sum of its numbers, as in Caffe. The function raises
    NetError if a layer got a label that it does not know and could not report it while it ran.
    """
    wanted = [
        (node.layer, i, weight)
        for node in nodes
        for place, (i, weight) in enumerate(zip(node.tops, node.layer.loss_weights, strict=True))
        if i in arrays and ((place == 0 and node.layer.scores) or weight)
    ]
    judges = [(layer, layer.verdict) for layer, _, _ in wanted if layer.verdict is not None]
    sums = ops.sums_later(
        [*(arrays[i] for _, i, _ in wanted), *(verdict[1:2] for _, verdict in judges)]
    )

    def read() -> dict[str, float]:
        numbers = sums()
        for (layer, _), number in zip(judges, numbers[len(wanted) :], strict=True):
            if text := layer.told(number):
                raise layer.error("", text)
        found = dict[str, float]()
        total = 0.0
        for (_, i, weight), number in zip(wanted, numbers, strict=False):
            found[values[i].name] = number
            total += weight * number
        learns = any(layer.differentiable for layer, _, _ in wanted)
        return found | ({"loss": total} if learns else {})

    return read
