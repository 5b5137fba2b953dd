"""A net of layers from an ONNX file: the reader's four steps, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.imported import (
    arithmetic,
    norms,
    pointwise,
    products,
    reductions,
    resizing,
    shapes,
    windows,
)
from nets.imported.converters import convert
from nets.imported.folding import ARRANGES, CannotFold, fold
from nets.imported.head import GraphKeys, complete
from nets.imported.layers_made import Fixed, Made, Step, Unsupported, Value
from nets.imported.model_file import Node, read_graph
from nets.imported.patterns import rewritten
from nets.imported.tensors import Tensor
from nets.schema import caffe_pb2 as caffe

# imported to register converters
FAMILIES = (arithmetic, norms, pointwise, products, reductions, resizing, shapes, windows)
FOLDED = (
    "convolutions have biases and no BatchNormalization exists: BatchNorm may have been folded; "
    "export with dynamo=False, training=TrainingMode.PRESERVE, do_constant_folding=False "
    "(docs/onnx.md)"
)
NEWER = (
    "PyTorch's newer exporter wrote this graph: torch.onnx.export(..., dynamo=False) may write "
    "operators that are read (docs/onnx.md)"
)


@dataclass(frozen=True, eq=False)
class Imported:
    """A net from an ONNX file, and the weights of its layers. `rows`: the number of rows that the
    file fixes, 0 if it is open. `told`: warnings."""

    proto: caffe.NetParameter
    weights: Mapping[str, Sequence[NDArray[Any]]] = field(repr=False)
    rows: int = 0
    told: tuple[str, ...] = ()


def import_net(path: Path, keys: GraphKeys | None = None) -> Imported:
    """Read an ONNX file as a net. Raises NetError with every mistake."""
    keys = keys or GraphKeys()
    graph = rewritten(read_graph(path, keys.output))
    made = Made.begun(graph)
    if problems := _convert(made):
        newer = any(node.name.startswith("node_") for node in graph.nodes)
        raise NetError([*problems, *([f"{path.name}: {NEWER}"] if newer else [])])
    proto = complete(made, keys)
    return Imported(proto, made.weights, graph.rows, _told(made))


def import_weights(path: Path) -> dict[str, tuple[NDArray[Any], ...]]:
    """Read the weights of the layers that `import_net` makes, whichever output it is told to
    compute. Raises NetError if the file cannot be read."""
    made = Made.begun(rewritten(read_graph(path, None)))
    _convert(made)
    return {name: tuple(arrays) for name, arrays in made.weights.items()}


def _convert(made: Made) -> list[str]:
    """Add the layers of all nodes. Return a line for each kind of operator that no layer
    computes."""
    problems: dict[tuple[str, str], list[str]] = {}
    lost = set[str]()  # values that depend on such an operator
    for node in made.graph.nodes:
        if lost & set(node.inputs):
            lost |= set(node.outputs)
            continue
        try:
            _convert_node(made, node)
        except (Unsupported, CannotFold) as error:
            lost |= set(node.outputs)
            problems.setdefault((node.kind, str(error)), []).append(node.name)
    return [_line(made.graph.path.name, *key, names) for key, names in problems.items()]


def _line(file: str, kind: str, why: str, names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:4])
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{file}: {kind} {shown}{more}: {why}"


def _convert_node(made: Made, node: Node) -> None:
    for name in node.inputs:
        if name and name not in made.values:
            made.values[name] = _initializer(made.graph.tensors[name])
    inputs = [made.values[name] if name else None for name in node.inputs]
    if node.kind == "CastLike" and isinstance(inputs[0], Fixed):
        inputs = inputs[:1] * 2  # all computed numbers are float32, as constants are read
    if any(isinstance(value, Value) for value in inputs):
        convert(Step(made, node))
        for name in node.outputs:
            if name not in made.values and made.readers[name]:
                raise Unsupported(f"its output '{name}' is read")
        return
    if node.kind == "Constant":
        results = [_constant(node)]
        learned = ""
    else:
        given = [value if isinstance(value, Fixed) else None for value in inputs]
        results = fold(node, [None if value is None else value.array for value in given])
        learned = next((value.learned for value in given if value and value.learned), "")
        if learned and node.kind not in ARRANGES and results[0].dtype.kind == "f":
            made.computed.append(learned)
    for name, array in zip(node.outputs, results, strict=False):
        made.values[name] = Fixed(array, learned if array.dtype.kind == "f" else "")


def _initializer(tensor: Tensor) -> Fixed:
    return Fixed(tensor.array, tensor.name if tensor.is_float else "")


def _constant(node: Node) -> NDArray[Any]:
    """Return the value of a Constant node."""
    for key, value in node.attributes.items():
        if isinstance(value, Tensor):
            return value.array
        if key in ("value_float", "value_floats"):
            return np.array(value, np.float32)
        if key in ("value_int", "value_ints"):
            return np.array(value, np.int64)
    raise Unsupported("its value is a text or a sparse array")


def _told(made: Made) -> tuple[str, ...]:
    """Return warnings about the graph."""
    file = made.graph.path.name
    biased = any(layer.convolution_param.bias_term for layer in made.layers if _convolves(layer))
    normed = any("Normalization" in node.kind for node in made.graph.nodes)
    told = [f"{file}: {FOLDED}"] if biased and not normed else []
    if made.computed:
        names = list(dict.fromkeys(made.computed))
        shown = f"'{names[0]}' and {len(names) - 1} more" if len(names) > 1 else f"'{names[0]}'"
        told.append(
            f"{file}: parameters {shown} are not used as they are, but arrays computed from them: "
            "these arrays are trained, without that computation"
        )
    return tuple(told)


def _convolves(layer: caffe.LayerParameter) -> bool:
    return layer.type in ("Convolution", "DepthwiseConvolution")
