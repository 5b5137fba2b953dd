"""The FC phase of a net as a chain of links. It is cut behind each InnerProduct, since only these
layers are divided by output units.

    values from the conv phase -> [ip1] -> [relu1 drop1 ip2] -> ... -> [relu ip] -> [loss]

A link gives the next link one blob, the top of its InnerProduct. Any link may read labels and other
numbers of the conv phase without a gradient. So a server that has a few units of every InnerProduct
can compute all other layers whole, as soon as the other servers' columns have arrived (One weird
trick, section 4; Omnivore D.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nets.errors import NetError, PrototxtError
from nets.graph.sharing import Sharing
from nets.graph.wiring import Node, Wiring

KIND = "InnerProduct"


@dataclass(eq=False)
class Link:
    """The layers between two cuts, in order. `dense` is the InnerProduct at its end (None: the last
    link).

    `inputs`: the values from outside that it reads, in the order in which they are made.
    """

    nodes: list[Node] = field(default_factory=list)
    dense: Node | None = None
    inputs: list[int] = field(default_factory=list)


def chain_of(wiring: Wiring, sharing: Sharing, net: str) -> list[Link]:
    """Return the links of the net's FC phase, at least two. Raises NetError with every layer that
    does not fit into a chain."""
    nodes = [node for node in wiring.nodes if node.in_fc]
    count = sum(node.layer.is_dense for node in nodes)
    if not count:
        raise NetError(
            f"net '{net}': it has no {KIND} layer, so there is nothing to divide by output units"
        )
    for node in wiring.nodes:
        if node.layer.time_first:
            raise node.layer.error(
                "",
                f"found '{node.layer.proto.type}', but layers behind a recurrent layer have a row "
                "for every step of time, and cannot be divided by output units",
            )
    links = [Link() for _ in range(count + 1)]
    place: dict[int, int] = {}  # index of a node -> its link
    problems: list[str] = []
    for node in nodes:
        try:
            place[node.index] = _add(wiring, sharing, links, place, node)
        except NetError as error:
            problems += error.problems
            place[node.index] = _after(wiring, place, node)
    if problems:
        raise PrototxtError(problems)
    if not links[-1].nodes:
        raise NetError(f"net '{net}': no layer reads its last {KIND}, expected a loss or a score")
    return links


def _after(wiring: Wiring, place: dict[int, int], node: Node) -> int:
    """Return the link of a layer: the link of its bottoms, or the next one behind an
    InnerProduct."""
    makers = [wiring.nodes[wiring.values[i].producer] for i in node.bottoms]
    return max(
        (place[maker.index] + maker.layer.is_dense for maker in makers if maker.in_fc), default=0
    )


def _add(
    wiring: Wiring, sharing: Sharing, links: Sequence[Link], place: dict[int, int], node: Node
) -> int:
    at = _after(wiring, place, node)
    link = links[at]
    _check_kind(link, node)
    _check_reach(wiring, place, node, at)
    if any(
        (node.index, i) in {*sharing.owner, *sharing.owner.values()}
        for i in range(len(node.layer.params))
    ):
        raise node.layer.error(
            "param.name", (f"a shared parameter, but {KIND} layers are divided by output units")
        )
    if link is not links[-1] and any(node.layer.loss_weights):
        raise node.layer.error(
            "loss_weight", (f"a loss before the last {KIND}: its gradient cannot be divided")
        )
    link.nodes.append(node)
    if node.layer.is_dense:
        link.dense = node
    fresh = (
        i
        for i in node.bottoms
        if place.get(wiring.values[i].producer) != at and i not in link.inputs
    )
    link.inputs = sorted({*link.inputs, *fresh})
    return at


def _check_kind(link: Link, node: Node) -> None:
    """Check that the InnerProducts follow one another and that no other layer is dense."""
    kind = node.layer.proto.type
    if node.layer.is_dense and kind != KIND:
        raise node.layer.error(
            "type", (f"found '{kind}', but only {KIND} layers can be divided by output units")
        )
    if node.layer.is_dense and link.dense is not None:
        other = link.dense.layer.name
        raise node.layer.error(
            "bottom", (f"an {KIND} parallel to '{other}', expected a chain of layers")
        )


def _check_reach(wiring: Wiring, place: dict[int, int], node: Node, at: int) -> None:
    """Check that every path goes through the InnerProducts. Only numbers of the conv phase without
    a gradient (labels) may bypass one."""
    for i in node.bottoms:
        value = wiring.values[i]
        maker = wiring.nodes[wiring.values[i].producer]
        known = place.get(maker.index)
        near = known == at or (maker.layer.is_dense and known == at - 1)
        crosses = known is None and (at == 0 or not value.needs_grad)
        if not near and not crosses:
            raise node.layer.error(
                "bottom", (f"'{value.name}' bypasses an {KIND}, expected a chain of layers")
            )
