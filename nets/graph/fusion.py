"""Fusion: the groups of layers that the backend computes as one operation.

- BatchNorm, its Scale, the sum with a shortcut and the activation: the Scale does the work of all
  (`ops.norm_scale_forward`), and the others only pass values on. Activations are those of
  `ops.joined_activations`; over a sum only the ReLU, which needs no more than its top for its
  gradient. In a residual block the gradients from the next block and around it are added up in the
  pass that rectifies them and takes BatchNorm's sums (`ops.rectified_sums`).
- A MAX Pooling with the ReLU before or after it: the ReLU leaves its gradient to the pooling
  (`rectify` of `ops.pool_forward`), since a value that is not positive is never a maximum.
- An Embed with the LSTM or RNN above it: the recurrent layer multiplies the rows of the table with
  its weights, once a pass, and its steps read the products by number.

Every blob that can be read by its name is kept: layers are only joined if the name between them is
used again, or if memory is reused.
"""

from __future__ import annotations

from collections.abc import Sequence

from nets.graph.wiring import Node, Wiring
from nets.layers.affine import Scale
from nets.layers.combine import Eltwise
from nets.layers.dense import Embed
from nets.layers.elementwise import Elementwise, ReLU
from nets.layers.normalise import BatchNorm
from nets.layers.pool import Pooling
from nets.layers.recurrent import Recurrent


def join(wiring: Wiring, nodes: Sequence[Node], reused: bool) -> None:
    """Join the layers of `nodes`: into every Scale over a BatchNorm, every MAX Pooling, and every
    recurrent layer over an Embed.

    Call this after `allow_in_place`. `reused`: arrays share memory, so blobs between two layers are
    not read by their names.
    """
    mine = {node.index: node for node in nodes}
    for node in nodes:
        if (
            isinstance(node.layer, Pooling)
            and node.layer.geometry.mode == "MAX"
            and len(node.tops) == 1
        ):
            _join_pool(wiring, mine, node)
        below = mine.get(wiring.values[node.bottoms[0]].producer) if node.bottoms else None
        if below is not None and isinstance(node.layer, Recurrent):
            _join_table(wiring, mine, below, node, node.layer, reused)
        if (
            below is None
            or not isinstance(node.layer, Scale)
            or not isinstance(below.layer, BatchNorm)
        ):
            continue
        learns = wiring.values[below.bottoms[0]].needs_grad
        frozen = not (below.runs_back or node.runs_back)
        if (
            (learns or frozen)
            and node.layer.per_channel
            and _next(wiring, mine, below, reused) is node
        ):
            node.layer.norm = below.layer
            below.layer.hand_on()
            _join_sum(wiring, mine, node, reused)
            _join_activation(wiring, mine, node, node.layer, reused)


def _join_table(
    wiring: Wiring,
    mine: dict[int, Node],
    node: Node,
    above: Node,
    recurrent: Recurrent,
    reused: bool,
) -> None:
    """Join an Embed whose top only the recurrent layer reads, as its input, one number a step."""
    embed = node.layer
    if (
        isinstance(embed, Embed)
        and len(wiring.values[node.bottoms[0]].shape) == 2
        and above.bottoms.count(node.tops[0]) == 1
        and _next(wiring, mine, node, reused) is above
    ):
        recurrent.embed = embed
        embed.hand_on()


def _next(wiring: Wiring, mine: dict[int, Node], node: Node, reused: bool) -> Node | None:
    """Return the only reader of the node's top. None if the array may have another reader, or if
    only one of the two layers has a backward pass."""
    value = wiring.values[node.tops[0]]
    if len(value.consumers) != 1 or value.consumers[0] not in mine or any(node.layer.loss_weights):
        return None
    reader = mine[value.consumers[0]]
    alike = reader.runs_back == node.runs_back
    free = reused or value.name in list(reader.layer.proto.top)
    return reader if alike and free else None


def _join_sum(wiring: Wiring, mine: dict[int, Node], node: Node, reused: bool) -> None:
    """Join the sum of the Scale's top and another value, if that value is computed before it."""
    after = _next(wiring, mine, node, reused)
    if (
        after is None
        or not isinstance(after.layer, Eltwise)
        or not after.layer.plain_sum
        or len(after.bottoms) != 2
    ):
        return
    at = after.bottoms.index(node.tops[0])
    other = after.bottoms[1 - at]
    if wiring.values[other].producer < node.index:
        node.also = [other]
        after.layer.hand_on(at)


def _rectifier(node: Node | None) -> ReLU | None:
    """Return the node's layer if it is a plain ReLU."""
    return (
        node.layer
        if node is not None and isinstance(node.layer, ReLU) and node.layer.slope == 0
        else None
    )


def _join_activation(
    wiring: Wiring, mine: dict[int, Node], node: Node, scale: Scale, reused: bool
) -> None:
    """Join the activation of the Scale's result. Over a sum it is a ReLU in place, which keeps its
    own gradient."""
    if node.also:
        last = _next(wiring, mine, node, True)
        over = None if last is None else _next(wiring, mine, last, False)
        relu = _rectifier(over)
        if over is not None and relu is not None and relu.in_place:
            scale.activation = relu.activation
            relu.absorbed = True
            _join_gradient(wiring, mine, over, relu, scale)
        return
    after = _next(wiring, mine, node, reused)
    if after is not None and isinstance(after.layer, Elementwise):
        found = after.layer.activation
        if found is not None and found.kind in scale.ops.joined_activations:
            scale.activation = found
            after.layer.hand_down()


def _join_gradient(
    wiring: Wiring, mine: dict[int, Node], node: Node, relu: ReLU, scale: Scale
) -> None:
    """Let the gradients of the ReLU's readers be added up, rectified and summed for the Scale in
    one pass."""
    if scale.ops.sums_as_it_rectifies:
        relu.gradient = scale.rectified
        value = wiring.values[node.tops[0]]
        here = all(reader in mine for reader in value.consumers)
        value.apart = here and len(value.consumers) == 2 and not any(relu.loss_weights)


def _join_pool(wiring: Wiring, mine: dict[int, Node], node: Node) -> None:
    """Join a plain ReLU whose top only the pooling reads, or that follows the pooling in place."""
    below = mine.get(wiring.values[node.bottoms[0]].producer)
    before = _rectifier(below)
    after = _rectifier(_next(wiring, mine, node, False))
    if below is not None and before is not None and _next(wiring, mine, below, True) is node:
        node.layer.rectify = True
        before.hand_on()
    if after is not None and after.in_place:
        node.layer.rectify = after.absorbed = True
        after.hand_on()
