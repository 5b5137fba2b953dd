"""The wiring of a net: blob names resolved to values. Each value is written once.

It checks a net's connections and finds the layers of the FC phase, the values that cross the cut
and the values that need gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from nets.definition.spec import LayerSpec
from nets.errors import NetError, PrototxtError, did_you_mean
from nets.layers import Layer, Setup, kind_of
from nets.layers.base import Shape


@dataclass
class Value:
    """The meaning of a blob name between two writes. An in-place layer makes a new value of the
    same name.

    `apart`: the layer that makes it takes the gradients of its two readers one by one, not their
    sum (`nets.graph.fusion`). `dtype`: the type of the value and its gradient in memory, None for
    the net's dtype (`nets.graph.storage`).
    """

    name: str
    shape: Shape
    producer: int
    consumers: list[int] = field(default_factory=list)
    needs_grad: bool = False
    apart: bool = False
    dtype: Any = None


@dataclass(eq=False)
class Node:
    """One layer, its place in the order, and the values that it reads and writes (indices into
    Wiring.values).

    `wanted`: for each bottom, whether it needs a gradient. `also`: further values that its forward
    takes, namely bottoms of a later layer whose work it does (`nets.graph.fusion`).
    """

    index: int
    layer: Layer
    bottoms: list[int]
    tops: list[int]
    wanted: list[bool] = field(default_factory=list)
    also: list[int] = field(default_factory=list)
    in_fc: bool = False

    @property
    def runs_back(self) -> bool:
        """Whether the layer has a backward pass: a gradient is needed below it, or for its own
        parameters, or it has running statistics."""
        return any(self.wanted) or (bool(self.layer.params) and not self.layer.frozen)


@dataclass
class Wiring:
    """The layers (`nodes`) of a whole net, with both phases, in the order in which they are
    computed, and the values that they read and make."""

    nodes: list[Node]
    values: list[Value]

    @property
    def boundary(self) -> list[int]:
        """The values that the conv phase makes (or gets as inputs) and the FC phase reads, in the
        order in which they are made."""
        return [i for i, value in enumerate(self.values) if self._crosses(value)]

    def _crosses(self, value: Value) -> bool:
        return not self.nodes[value.producer].in_fc and any(
            self.nodes[c].in_fc for c in value.consumers
        )

    def reshape(self, setup: Setup) -> None:
        """Give every layer and value the shapes that follow from `setup`."""
        for node in self.nodes:
            shapes = node.layer.setup([self.values[i].shape for i in node.bottoms], setup)
            for i, shape in zip(node.tops, shapes, strict=True):
                self.values[i].shape = shape


def wire(
    specs: Sequence[LayerSpec],
    setup: Setup,
    make: Callable[[LayerSpec], Layer],
    through: Collection[str] = (),
    force: bool = False,
) -> Wiring:
    """Connect the layers in their order. Raises PrototxtError with every mistake, one per faulty
    layer.

    `through`: inputs whose gradients are needed, because the layers that made them learn. `force`:
    gradients flow back to every input, but not to labels (Caffe's force_backward).
    """
    wiring = Wiring([], [])
    problems = list(_repeated_names(specs))
    current: dict[str, int] = {}
    broken: set[str] = set()  # tops of faulty layers; their readers are not reported
    for spec in specs:
        try:
            _add(wiring, current, broken, spec, setup, make, through, force)
        except NetError as error:
            problems += error.problems
            broken |= set(spec.proto.top)
    if problems:
        raise PrototxtError(problems)
    _keep_below_recurrent(wiring)
    return wiring


def _add(
    wiring: Wiring,
    current: dict[str, int],
    broken: set[str],
    spec: LayerSpec,
    setup: Setup,
    make: Callable[[LayerSpec], Layer],
    through: Collection[str],
    force: bool,
) -> None:
    layer = make(spec)
    proto = spec.proto
    for name in proto.bottom:
        if name not in current and name not in broken:
            near = did_you_mean(name, [*current, *broken])
            raise spec.where.error(
                "bottom", (f"found '{name}', but no layer above has such a top{near}")
            )
    for name in proto.top:
        if name in current and name not in proto.bottom:
            maker = wiring.nodes[wiring.values[current[name]].producer].layer.name
            raise spec.where.error("top", f"found '{name}', which layer '{maker}' already writes")
    if broken & set(proto.bottom):
        broken |= set(proto.top)
        return
    bottoms = [current[name] for name in proto.bottom]
    shapes = layer.setup([wiring.values[i].shape for i in bottoms], setup)
    node = Node(len(wiring.nodes), layer, bottoms, [])
    wiring.nodes.append(node)
    for i in bottoms:
        wiring.values[i].consumers.append(node.index)
    _check_labels(wiring, node)
    _mark(wiring, node)
    _ask(wiring, node, force)
    node.wanted = _wanted(wiring, node)
    needs = layer.differentiable and (layer.learns or any(node.wanted))
    for name, shape in zip(proto.top, shapes, strict=True):
        current[name] = len(wiring.values)
        node.tops.append(len(wiring.values))
        wanted = needs or (layer.is_source and name in through)
        wiring.values.append(Value(name, shape, node.index, needs_grad=wanted))


def _mark(wiring: Wiring, node: Node) -> None:
    """Put the node into the FC phase if it is a dense or scoring layer, or depends on one."""
    after_fc = any(wiring.nodes[wiring.values[i].producer].in_fc for i in node.bottoms)
    node.in_fc = (
        after_fc or node.layer.is_dense or node.layer.scores or any(node.layer.loss_weights)
    )


def _keep_below_recurrent(wiring: Wiring) -> None:
    """Take the recurrent layers, and all layers below one, out of the FC phase. Their weights are
    used in every step of time, so they have much work and few parameters, as convolutions have."""
    below: set[int] = set()
    for node in reversed(wiring.nodes):
        if node.layer.time_first or node.index in below:
            below |= {node.index, *(wiring.values[i].producer for i in node.bottoms)}
    for node in wiring.nodes if below else ():
        node.in_fc = False
        if node.index not in below:
            _mark(wiring, node)


def _check_labels(wiring: Wiring, node: Node) -> None:
    """Refuse labels that depend on parameters, because no loss has a gradient for them."""
    at = node.layer.labels
    down = list(node.layer.proto.propagate_down)
    if at is None or not node.layer.differentiable or at >= len(node.bottoms):
        return
    value = wiring.values[node.bottoms[at]]
    learned = value.needs_grad and not wiring.nodes[value.producer].layer.is_source
    if learned and not (len(down) > at and not down[at]):
        text = f"labels '{value.name}' depend on parameters, but no gradient reaches labels; "
        raise node.layer.error(
            "bottom", text + ("set propagate_down: false for them if this is intended")
        )


def _ask(wiring: Wiring, node: Node, force: bool) -> None:
    """Let gradients flow to the bottoms for which the file requests them, by force_backward or by
    propagate_down."""
    layer = node.layer
    down = list(node.layer.proto.propagate_down)
    for at, i in enumerate(node.bottoms if layer.differentiable else ()):
        asked = down[at] if down else force
        if asked and at != layer.labels:
            wiring.values[i].needs_grad = True
        elif asked and down:
            text = (
                f"found true for '{wiring.values[i].name}', but no gradient reaches "
                "labels, expected false"
            )
            raise layer.error("propagate_down", text)


def _wanted(wiring: Wiring, node: Node) -> list[bool]:
    down = list(node.layer.proto.propagate_down)
    allowed = down or [True] * len(node.bottoms)
    return [
        node.layer.differentiable
        and allow
        and at != node.layer.labels
        and wiring.values[i].needs_grad
        for at, (i, allow) in enumerate(zip(node.bottoms, allowed, strict=True))
    ]


def _scores(spec: LayerSpec) -> bool:
    """Whether the layer is a loss or an accuracy. Two of these may have one name if their tops
    differ."""
    kind = kind_of(spec)
    return kind is not None and kind.scores


def _repeated_names(specs: Sequence[LayerSpec]) -> list[str]:
    first: dict[str, LayerSpec] = {}
    problems = []
    for spec in specs:
        seen = first.setdefault(spec.proto.name, spec)
        if seen is not spec and not (_scores(seen) and _scores(spec)):
            line = seen.where.node.line
            problems.append(
                spec.where.problem(
                    "name", (f"found '{spec.proto.name}' twice, first on line {line}")
                )
            )
    return problems
