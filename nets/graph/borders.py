"""The borders of a part of a net: its inputs, its outputs, and the values that cross to its
neighbours.

Values are indices and names here. `wiring` decides where the phases are cut, `sharding.chain` where
a chain is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nets.errors import NetError
from nets.graph.wiring import Node, Wiring

PARTS = ("all", "conv", "fc", "link")


@dataclass(frozen=True)
class Borders:
    """The borders of a part. A value is an index into `Wiring.values`.

    `inputs`: the inputs, by name. `boundary`: values that cross to other parts. `names`: the last
    value of each blob. `outputs`: names of values that this part makes and none of its layers
    reads.
    """

    inputs: dict[str, int]
    boundary: list[int]
    names: dict[str, int]
    outputs: list[str]


def takes(node: Node, part: str) -> bool:
    """Whether the layer belongs to this part of the net."""
    return not node.layer.is_source and (part in ("all", "link") or node.in_fc == (part == "fc"))


def find_borders(
    wiring: Wiring, nodes: Sequence[Node], part: str, through: Collection[str], net: str
) -> Borders:
    """Return the borders of `nodes`, the layers of a part. `through`: the inputs of a link whose
    gradients are needed."""
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
    """Return both ends of a link: the inputs that need a gradient, and the columns of the last
    InnerProduct."""
    last = [i for node in nodes if node.layer.is_dense for i in node.tops]
    return [*(i for i in sources if wiring.values[i].name in through), *last]


def first_rows(wiring: Wiring, inputs: Mapping[str, int], net: str, axis: int = 0) -> int:
    """Return the batch size: the length of the rows' axis of the first input or, without inputs, of
    the first value that a layer makes."""
    made = [i for node in wiring.nodes if not node.bottoms for i in node.tops]
    shapes = [shape for i in (*inputs.values(), *made) if (shape := wiring.values[i].shape)]
    if not shapes:
        raise NetError(f"net '{net}': no layer gives data, expected a Data or Input layer")
    return shapes[0][axis]
