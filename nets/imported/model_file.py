"""Reader of ONNX files: the nodes in the order in which they are computed, the constants, and the
one image that the graph takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from nets.errors import NetError, did_you_mean
from nets.imported.tensors import Tensor, type_name
from nets.reasons import reason
from nets.regular import read_bytes
from nets.schema import onnx_net_pb2 as onnx

MOST_BYTES = 2**31 - 1  # of a protobuf message
LARGEST = 2**20  # rows of a batch, or pixels of an image's side
OPSETS = range(13, 22)
QUANTISED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinear", "Integer")


@dataclass(frozen=True)
class Node:
    """One operator. `inputs` and `outputs` are names of values; an input that is left out is "".
    `attributes`: numbers, lists, texts and tensors, by name. A node without a name in the file is
    named by its kind and its place."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.inputs} -> {self.outputs}>"


@dataclass(frozen=True)
class Graph:
    """A graph that can be converted. `nodes` are those that the `outputs` depend on, each behind
    the nodes that it reads.

    `shape` is the shape of the image, (C, H, W) or (D,). `rows`: the number of rows that the file
    fixes, 0 if it is open.
    """

    path: Path
    opset: int
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor] = field(repr=False)
    input: str
    outputs: tuple[str, ...]
    shape: tuple[int, ...]
    rows: int


def read_graph(path: Path, output: str | None = "") -> Graph:
    """Read an ONNX file. `output`: the output to compute, needed if there are several; None: all.
    Raises NetError with every mistake."""
    file = path.name
    model = _message(path)
    opset = _opset(model, file)
    graph = model.graph
    tensors = {proto.name: Tensor(proto, path) for proto in graph.initializer}
    inputs = [value for value in graph.input if value.name not in tensors]
    if len(inputs) != 1:
        names = ", ".join(f"'{value.name}'" for value in inputs) or "none"
        raise NetError(f"{file}: found inputs {names}, expected one: the images")
    rows, shape = _image(inputs[0], file)
    chosen = _outputs(graph, output, file)
    whole = [_node(node, at, path) for at, node in enumerate(graph.node)]
    _check_makers(whole, {inputs[0].name, *tensors}, file)
    nodes = tuple(_needed(whole, chosen))
    quantised = [
        node for node in nodes if node.kind.startswith(QUANTISED) or "Integer" in node.kind
    ]
    if quantised:
        raise NetError(
            f"{file}: found {quantised[0].kind} and {len(quantised) - 1} more such nodes: "
            "a quantised graph cannot be trained; export the net with floating-point numbers"
        )
    found = Graph(path, opset, nodes, tensors, inputs[0].name, chosen, shape, rows)
    _check_order(found)
    _check_tensors(found)
    return found


def _message(path: Path) -> onnx.ModelProto:
    try:
        data = read_bytes(path, MOST_BYTES)
    except OSError as error:
        raise NetError(f"{path}: cannot be read: {reason(error)}") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise NetError(f"{path}: not a whole ONNX file: it ends early or is damaged") from None
    if not model.graph.node:
        raise NetError(f"{path}: found no operators, expected an ONNX file of a net")
    return model


def _opset(model: onnx.ModelProto, file: str) -> int:
    versions = {opset.domain: opset.version for opset in model.opset_import}
    found = versions.get("", versions.get("ai.onnx", 0))
    if found not in OPSETS:
        raise NetError(
            f"{file}: found opset {found}, expected {OPSETS[0]} to {OPSETS[-1]}; "
            f"export with opset_version=17"
        )
    return int(found)


def _image(value: onnx.ValueInfoProto, file: str) -> tuple[int, tuple[int, ...]]:
    """Return the number of rows (0 if open) and the shape of a row of the graph's input."""
    label = f"{file}: input '{value.name}'"
    kind = value.type.tensor_type
    if kind.elem_type not in (1, 10):
        raise NetError(f"{label}: found {type_name(kind.elem_type)}, expected float32 numbers")
    sizes = list(kind.shape.dim)
    if len(sizes) not in (2, 4):
        raise NetError(f"{label}: found {len(sizes)} axes, expected images (N, C, H, W)")
    opened = [str(size.dim_param or "?") for size in sizes[1:] if size.dim_value <= 0]
    if opened:
        raise NetError(
            f"{label}: found open sizes {', '.join(opened)}, expected numbers for all axes but the "
            "rows; export with images of one size"
        )
    if (largest := max(int(size.dim_value) for size in sizes)) > LARGEST:
        raise NetError(f"{label}: found a size of {largest}, expected at most {LARGEST}")
    return int(max(0, sizes[0].dim_value)), tuple(int(size.dim_value) for size in sizes[1:])


def _outputs(graph: onnx.GraphProto, wanted: str | None, file: str) -> tuple[str, ...]:
    names = tuple(value.name for value in graph.output)
    if wanted is None and names:
        return names
    if wanted and wanted not in names:
        near = did_you_mean(wanted, names)
        raise NetError(f"{file}: found no output '{wanted}'{near}; it has {', '.join(names)}")
    if not wanted and len(names) != 1:
        raise NetError(
            f"{file}: found outputs {', '.join(names) or 'none'}, expected one; "
            "choose it by train.onnx.output"
        )
    return (wanted,) if wanted else names


def _node(proto: onnx.NodeProto, at: int, path: Path) -> Node:
    attributes = {each.name: _attribute(each, path) for each in proto.attribute}
    domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}."
    name = proto.name or f"{proto.op_type}_{at}"
    return Node(domain + proto.op_type, name, tuple(proto.input), tuple(proto.output), attributes)


def _attribute(proto: onnx.AttributeProto, path: Path) -> Any:
    """Return the value of an attribute. A list that is empty is ()."""
    if proto.HasField("t"):
        return Tensor(proto.t, path)
    if proto.HasField("s"):
        return proto.s.decode("utf-8", "replace")
    for name in ("f", "i"):
        if proto.HasField(name):
            return getattr(proto, name)
    for name in ("floats", "ints"):
        if values := getattr(proto, name):
            return tuple(values)
    return tuple(value.decode("utf-8", "replace") for value in proto.strings)


def _needed(nodes: list[Node], outputs: Sequence[str]) -> Iterator[Node]:
    """Yield the nodes that the outputs depend on, in the order of the file."""
    makers = {name: node for node in nodes for name in node.outputs if name}
    wanted = set[int]()
    waiting = list(outputs)
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and id(node) not in wanted:
            wanted.add(id(node))
            waiting += node.inputs
    yield from (node for node in nodes if id(node) in wanted)


def _check_makers(nodes: Sequence[Node], given: set[str], file: str) -> None:
    """Raise NetError for a value that is made twice. `given`: the values that no node makes."""
    known = set(given)
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in known:
                raise NetError(f"{file}: node '{node.name}': makes '{name}', which exists already")
            known.add(name)


def _check_order(graph: Graph) -> None:
    """Raise NetError for values that are read before they are made."""
    known = {"", graph.input, *graph.tensors}
    for at, node in enumerate(graph.nodes):
        label = f"{graph.path.name}: node '{node.name}'"
        if missing := [name for name in node.inputs if name not in known]:
            made = any(missing[0] in later.outputs for later in graph.nodes[at:])
            why = "a later node makes it: the graph has a cycle" if made else "no node makes it"
            raise NetError(f"{label}: reads '{missing[0]}', but {why}")
        known |= set(node.outputs)
    for output in graph.outputs:
        if output not in known - {graph.input, *graph.tensors}:
            raise NetError(f"{graph.path.name}: no node makes the output '{output}'")


def _check_tensors(graph: Graph) -> None:
    """Raise NetError for each tensor that cannot be read."""
    read = {name for node in graph.nodes for name in node.inputs}
    problems = list[str]()
    for tensor in (tensor for name, tensor in graph.tensors.items() if name in read):
        try:
            tensor.check()
        except NetError as error:
            problems += error.problems
    if len(problems) > 3:
        problems = [*problems[:3], f"{graph.path.name}: and {len(problems) - 3} more such tensors"]
    if problems:
        raise NetError(problems)


def with_inputs(node: Node, *inputs: str, kind: str = "", **attributes: Any) -> Node:
    """Return the node with other inputs, and another kind and attributes if given."""
    return replace(
        node, kind=kind or node.kind, inputs=inputs, attributes=attributes or node.attributes
    )
