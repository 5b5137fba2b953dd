"""Where a part of a net begins and ends: what it is fed, what it hands on, what crosses to its
neighbours.

Values are indices and names here. Where the phases are cut is decided in `wiring`, where a chain is
in `sharding.chain`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nets.errors import NetError
from nets.graph.wiring import Node, Wiring

PARTS = ("all", "conv", "fc", "link")


@dataclass(frozen=True)
class Borders:
    """The borders of a part; a value is an index into `Wiring.values`.

    `inputs`: what is fed, by name. `boundary`: values that cross to other parts. `names`: the last
    value of each blob. `outputs`: names of what this part makes and none of its layers reads.
    """

    inputs: dict[str, int]
    boundary: list[int]
    names: dict[str, int]
    outputs: list[str]


def takes(node: Node, part: str) -> bool:
    """Whether the layer belongs to that part of the net."""
    return not node.layer.is_source and (part in ("all", "link") or node.in_fc == (part == "fc"))


def find_borders(
    wiring: Wiring, nodes: Sequence[Node], part: str, through: Collection[str], net: str
) -> Borders:
    """The borders of `nodes`, the layers of a part; `through`: inputs of a link whose gradients are
    wanted."""
    values = wiring.values
    sources = [i for node in wiring.nodes if node.layer.is_source for i in node.tops]
    boundary = _ends(wiring, nodes, sources, through) if part == "link" else wiring.boundary
    crossing = [values[i].name for i in boundary]
    if len(set(crossing)) < len(crossing):
        raise NetError(f"net '{net}': two values of one blob cross the cut: {crossing}")
    inputs = {values[i].name: i for i in (boundary if part == "fc" else sources)}
    made = [i for node in nodes for i in node.tops]
    mine = {node.index for node in nodes}
    outputs = [values[i].name for i in made if not mine & set(values[i].consumers)]
    return Borders(inputs, boundary, inputs | {values[i].name: i for i in made}, outputs)


def _ends(
    wiring: Wiring, nodes: Sequence[Node], sources: Sequence[int], through: Collection[str]
) -> list[int]:
    """Both ends of a link: inputs that want a gradient, and the columns of the InnerProduct it ends
    with."""
    last = [i for node in nodes if node.layer.is_dense for i in node.tops]
    return [*(i for i in sources if wiring.values[i].name in through), *last]


def first_rows(wiring: Wiring, inputs: Mapping[str, int], net: str) -> int:
    """The batch size: the length of the first input along axis 0, else of what the net begins
    with."""
    made = [i for node in wiring.nodes if not node.bottoms for i in node.tops]
    shapes = [shape for i in (*inputs.values(), *made) if (shape := wiring.values[i].shape)]
    if not shapes:
        raise NetError(f"net '{net}': no layer gives data, expected a Data or Input layer")
    return shapes[0][0]
