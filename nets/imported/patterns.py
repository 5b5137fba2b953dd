"""Compositions of operators that one layer computes: SiLU, GELU, and layer normalisation as opsets
before 17 write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from nets.imported.model_file import Graph, Node, with_inputs
from nets.imported.tensors import Tensor


class Nodes:
    """The nodes of a graph by the values that they make and read."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self.readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)

    def maker(self, name: str, *kinds: str) -> Node | None:
        """Return the node that makes a value, if it is of one of these kinds."""
        found = self.makers.get(name)
        return found if found is not None and found.kind in kinds else None

    def reader(self, node: Node | None, *kinds: str) -> Node | None:
        """Return the only reader of a node's output, if it is of one of these kinds."""
        if node is None:
            return None
        found = self.readers.get(node.outputs[0], [])
        single = len(found) == 1 and node.outputs[0] not in self.graph.outputs
        return found[0] if single and found[0].kind in kinds else None

    def number(self, name: str) -> float | None:
        """Return a constant that is one number."""
        tensor = self.graph.tensors.get(name)
        node = self.maker(name, "Constant")
        if node is not None and isinstance(node.attributes.get("value"), Tensor):
            tensor = node.attributes["value"]
        elif node is not None and isinstance(node.attributes.get("value_float"), float):
            return float(node.attributes["value_float"])
        if tensor is None or math.prod(tensor.shape) != 1:
            return None
        return float(tensor.array.ravel()[0])

    def other(self, node: Node, name: str) -> str:
        """Return the input of a node of two inputs that is not `name`."""
        return node.inputs[1] if node.inputs[0] == name else node.inputs[0]

    def by_number(self, node: Node | None, number: float) -> str:
        """Return the input of a node of two inputs whose other input is this number, else ""."""
        for at in (0, 1) if node is not None and len(node.inputs) == 2 else ():
            found = self.number(node.inputs[at])  # type: ignore[union-attr]
            if found is not None and math.isclose(found, number, rel_tol=1e-3):
                return node.inputs[1 - at]  # type: ignore[union-attr]
        return ""


Pattern = Callable[[Nodes, Node], "tuple[Node, Node] | None"]  # the last node, and its replacement


def rewritten(graph: Graph) -> Graph:
    """Return the graph with one node for each composition that a layer computes."""
    graph = _without_sequences(graph)
    nodes = Nodes(graph)
    instead: dict[int, Node] = {}
    for node in graph.nodes:
        pattern = PATTERNS.get(node.kind)
        found = pattern(nodes, node) if pattern is not None else None
        if found is not None:
            instead[id(found[0])] = found[1]
    changed = tuple(instead.get(id(node), node) for node in graph.nodes)
    return replace(graph, nodes=tuple(_needed(changed, graph.outputs)))


def _needed(nodes: tuple[Node, ...], outputs: tuple[str, ...]) -> list[Node]:
    wanted = set(outputs)
    found = []
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            wanted |= set(node.inputs)
            found.append(node)
    return found[::-1]


def _without_sequences(graph: Graph) -> Graph:
    """Return the graph with a Split for each SplitToSequence whose parts are taken one by one."""
    nodes = Nodes(graph)
    splits: dict[int, Node] = {}
    taken = set[int]()
    for node in graph.nodes:
        chunk = nodes.number(node.inputs[1]) if len(node.inputs) == 2 else None
        if node.kind != "SplitToSequence" or chunk is None or chunk < 1:
            continue
        readers = nodes.readers.get(node.outputs[0], [])
        parts = {
            nodes.number(each.inputs[1]): each for each in readers if each.kind == "SequenceAt"
        }
        if len(parts) == len(readers) and parts.keys() == {*range(len(readers))}:
            outputs = tuple(parts[at].outputs[0] for at in range(len(readers)))
            split = with_inputs(
                node, node.inputs[0], kind="Split", axis=node.attributes.get("axis", 0),
                chunk=int(chunk),
            )  # fmt: skip
            splits[id(node)] = replace(split, outputs=outputs)
            taken |= {id(each) for each in readers}
    changed = (splits.get(id(node), node) for node in graph.nodes if id(node) not in taken)
    return replace(graph, nodes=tuple(changed))


def _silu(nodes: Nodes, gate: Node) -> tuple[Node, Node] | None:
    """x * sigmoid(x), and x * hard_sigmoid(x)."""
    last = nodes.reader(gate, "Mul")
    if last is None or nodes.other(last, gate.outputs[0]) != gate.inputs[0]:
        return None
    kind = "SiLU"
    if gate.kind == "HardSigmoid":
        alpha, beta = gate.attributes.get("alpha", 0.2), gate.attributes.get("beta", 0.5)
        known = isinstance(alpha, float) and math.isclose(alpha, 1 / 6, rel_tol=1e-4)
        if not known or beta != 0.5:
            return None
        kind = "HardSwish"
    return last, with_inputs(last, gate.inputs[0], kind=kind)


def _gelu(nodes: Nodes, erf: Node) -> tuple[Node, Node] | None:
    """x / 2 * (1 + erf(x / sqrt(2))), in any order of the factors."""
    inner = nodes.maker(erf.inputs[0], "Div", "Mul")
    if inner is None:
        return None
    root = math.sqrt(2) if inner.kind == "Div" else math.sqrt(0.5)
    x = nodes.by_number(inner, root)
    plus = nodes.reader(erf, "Add")
    first = nodes.reader(plus, "Mul")
    if not x or plus is None or first is None or not nodes.by_number(plus, 1.0):
        return None
    factor = nodes.other(first, plus.outputs[0])
    half = nodes.maker(factor, "Mul", "Div")
    if half is not None and factor != x and _half(nodes, half) == x:
        return first, with_inputs(first, x, kind="Gelu")
    second = nodes.reader(first, "Mul", "Div")
    if factor == x and second is not None and _half(nodes, second) == first.outputs[0]:
        return second, with_inputs(second, x, kind="Gelu")
    halved = _half(nodes, first) == plus.outputs[0]
    if halved and second is not None and nodes.other(second, first.outputs[0]) == x:
        return second, with_inputs(second, x, kind="Gelu")
    return None


def _half(nodes: Nodes, node: Node) -> str:
    """Return the input that a node halves, "" if it does not."""
    return nodes.by_number(node, 0.5 if node.kind == "Mul" else 2.0)


def _layer_norm(nodes: Nodes, root: Node) -> tuple[Node, Node] | None:
    """(x - mean) / sqrt(mean of squares + eps), times a scale, plus a bias."""
    plus = nodes.maker(root.inputs[0], "Add")
    square = None if plus is None else next(
        (m for name in plus.inputs if (m := nodes.maker(name, "ReduceMean"))), None
    )  # fmt: skip
    power = None if square is None else nodes.maker(square.inputs[0], "Pow", "Mul")
    minus = None if power is None else nodes.maker(power.inputs[0], "Sub")
    mean = None if minus is None else nodes.maker(minus.inputs[1], "ReduceMean")
    quotient = nodes.reader(root, "Div")
    if plus is None or square is None or power is None or minus is None or mean is None:
        return None
    if quotient is None or mean.inputs[0] != minus.inputs[0]:
        return None
    eps = nodes.number(nodes.other(plus, square.outputs[0]))
    axes = (square.attributes.get("axes"), mean.attributes.get("axes"))
    scale = nodes.reader(quotient, "Mul")
    bias = nodes.reader(scale, "Add")
    if eps is None or axes != ((-1,), (-1,)) or scale is None or bias is None:
        return None
    inputs = (
        mean.inputs[0],
        nodes.other(scale, quotient.outputs[0]),
        nodes.other(bias, scale.outputs[0]),
    )
    if any(name not in nodes.graph.tensors for name in inputs[1:]):
        return None
    return bias, with_inputs(bias, *inputs, kind="LayerNormalization", epsilon=eps, axis=-1)


PATTERNS: Mapping[str, Pattern] = {
    "Sigmoid": _silu,
    "HardSigmoid": _silu,
    "Erf": _gelu,
    "Sqrt": _layer_norm,
}
