"""The losses and accuracies of a pass, as Python's numbers. The device is waited for only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from nets.graph.wiring import Node, Value
from ops import Array, Backend

Scores = dict[str, float]


def scores_reader(
    nodes: Sequence[Node], values: Sequence[Value], arrays: Mapping[int, Array], ops: Backend
) -> Callable[[], Callable[[], Scores]]:
    """Return a function that begins to read the scores of the layers that have run. It may be
    called again after each replay that overwrites `arrays`. It returns a function that returns
    every score, and the weighted total of the losses under "loss".

    Every top with a loss weight counts, by the sum of its numbers, as in Caffe. The last function
    raises NetError if a layer got a label that it does not know and could not report it while it
    ran.
    """
    wanted = [
        (node.layer, i, weight)
        for node in nodes
        for place, (i, weight) in enumerate(zip(node.tops, node.layer.loss_weights, strict=True))
        if i in arrays and ((place == 0 and node.layer.scores) or weight)
    ]
    names = [(values[i].name, weight) for _, i, weight in wanted]
    judges = [(layer, layer.verdict) for layer, _, _ in wanted if layer.verdict is not None]
    learns = any(layer.differentiable for layer, _, _ in wanted)
    begin = ops.sums_reader(
        [*(arrays[i] for _, i, _ in wanted), *(verdict[1:2] for _, verdict in judges)]
    )

    def read(sums: Callable[[], list[float]]) -> Scores:
        numbers = sums()
        for (layer, _), number in zip(judges, numbers[len(names) :], strict=True):
            if text := layer.told(number):
                raise layer.error("", text)
        found = Scores()
        total = 0.0
        for (name, weight), number in zip(names, numbers, strict=False):
            found[name] = number
            total += weight * number
        return found | ({"loss": total} if learns else {})

    return lambda: partial(read, begin())
