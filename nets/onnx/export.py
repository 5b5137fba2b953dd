"""Writer of ONNX files from a net and its weights."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.spec import NetSpec
from nets.errors import NetError
from nets.files.binary import replacing
from nets.graph.sharing import Sharing, share
from nets.graph.wiring import Node, Wiring, wire
from nets.layers import Setup, make_layer
from nets.layers.base import Shape
from nets.onnx import dense, pointwise, recurrent, spatial, tensor_shapes
from nets.onnx.graph_builder import IR, OPSET, Builder, Step, convert
from nets.predict.deployment import Deployment
from ops import get_backend

KINDS = (dense, pointwise, recurrent, tensor_shapes, spatial)  # imported to register converters
MOST = 2**31 - 1  # bytes of a protobuf message


def export(
    deployment: Deployment, weights: Mapping[str, Sequence[NDArray[Any]]], path: Path
) -> int:
    """Write the net with these weights (layer -> blobs) and return the number of ONNX operators.

    The number of rows is open, unless the net is written for one row. The file's metadata have the
    transform of images before the net and the names of the classes. Raises NetError with every
    layer that ONNX cannot express, and for weights that are missing or too large for one file.
    """
    model, builder = _model(deployment, weights)
    builder.onnx.checker.check_model(model)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
    return len(builder.nodes)


def _model(
    deployment: Deployment, weights: Mapping[str, Sequence[NDArray[Any]]]
) -> tuple[Any, Builder]:
    spec = deployment.net
    builder = Builder()
    helper = builder.onnx.helper
    kind = builder.onnx.TensorProto.FLOAT
    wiring, other = _wirings(deployment)
    names = _named(builder, wiring, other)
    _convert(builder, wiring, names, weights)
    if (size := sum(array.nbytes for array in builder.constants.values())) > MOST:
        raise NetError(
            f"{spec.path.name}: found {size} bytes of weights, expected at most "
            f"{MOST} in one ONNX file"
        )
    inputs = [i for node in wiring.nodes if node.layer.is_source for i in node.tops]
    outputs = [max(i for i, value in enumerate(wiring.values) if value.name == deployment.output)]
    described = [
        [
            helper.make_tensor_value_info(names[i], kind, _open(builder.shapes[names[i]]))
            for i in group
        ]
        for group in (inputs, outputs)
    ]
    constants = [
        builder.onnx.numpy_helper.from_array(array, name)
        for name, array in builder.constants.items()
    ]
    graph = helper.make_graph(builder.nodes, spec.name or "net", *described, initializer=constants)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR, producer_name="convoy")
    helper.set_model_props(model, _facts(deployment))
    return model, builder


def _wirings(deployment: Deployment) -> tuple[Wiring, Wiring]:
    """Return the wirings of the net with two numbers of rows, whose shapes differ where sizes are
    open. If a layer of the net, such as a Reshape, is written for one row, both have one, with a
    warning."""
    spec = deployment.net
    try:
        two, three = _wired(spec, 2), _wired(spec, 3)
        if _rows_of(three, deployment.output) != 1:
            return two, three
        fault = f"{spec.path.name}: found 1 row of '{deployment.output}' for 3 rows"
    except NetError as error:
        fault = str(error)
    try:
        one = _wired(spec, 1)
    except NetError:
        raise NetError(fault) from None
    text = "%s: the ONNX file takes one row, since the net is written for one: %s"
    logging.getLogger("nets").warning(text, spec.name or spec.path.name, fault)
    return one, one


def _rows_of(wiring: Wiring, output: str) -> int:
    """Return the first size of the net's output."""
    return [value.shape for value in wiring.values if value.name == output][-1][0]


def _wired(spec: NetSpec, rows: int) -> Wiring:
    """Return the wiring of the net with so many rows.

    If its inputs declare different numbers of rows, these are used instead: the rows of a recurrent
    layer's static input, for example, are not steps of time.
    """
    backend = get_backend("numpy")
    layers = spec.for_phase("TEST").layers
    declared = {
        shape.dim[0] for layer in layers for shape in layer.proto.input_param.shape if shape.dim
    }
    setup = Setup("TEST", rows if len(declared) == 1 else None, None)
    return wire(layers, setup, lambda layer: make_layer(layer, backend))


def _named(builder: Builder, wiring: Wiring, other: Wiring) -> dict[int, str]:
    """Return the name of each value. An input, and the last value of each other blob, have the
    blob's name. Sizes that change with the number of rows are open."""
    names: dict[int, str] = {}
    inputs = [i for node in wiring.nodes if node.layer.is_source for i in node.tops]
    for i in (*inputs, *reversed([i for i in range(len(wiring.values)) if i not in inputs])):
        shape: Shape = wiring.values[i].shape
        sizes = zip(shape, other.values[i].shape, strict=True)
        names[i] = builder.named(wiring.values[i].name)
        builder.shapes[names[i]] = tuple(a if a == b else -1 for a, b in sizes)
    return names


def _convert(
    builder: Builder,
    wiring: Wiring,
    names: Mapping[int, str],
    weights: Mapping[str, Sequence[NDArray[Any]]],
) -> None:
    sharing = share([node.layer for node in wiring.nodes])
    problems = list[str]()
    for node in (node for node in wiring.nodes if not node.layer.is_source):
        try:
            blobs = _blobs(wiring, sharing, node, weights)
            x, y = ([names[i] for i in group] for group in (node.bottoms, node.tops))
            convert(Step(builder, node, x, y, blobs))
        except NetError as error:
            problems += error.problems
    if problems:
        raise NetError(problems)


def _blobs(
    wiring: Wiring, sharing: Sharing, node: Node, weights: Mapping[str, Sequence[NDArray[Any]]]
) -> list[NDArray[Any]]:
    """Return the parameters of a layer, its own and the borrowed ones. Raises NetError if their
    owner has no weights."""
    blobs = []
    for at, param in enumerate(node.layer.params):
        index, place = sharing.owner.get((node.index, at), (node.index, at))
        owner = wiring.nodes[index].layer
        if owner.name not in weights:
            raise owner.error("", "found no weights of this layer")
        mine = weights[owner.name][sharing.owned(index, owner).index(place)]
        blobs.append(np.asarray(mine).reshape(param.shape))
    return blobs


def _open(shape: Shape) -> list[int | str]:
    """Return the sizes for a file, where an open size has a name."""
    return ["N" if size == -1 else size for size in shape]


def _facts(deployment: Deployment) -> dict[str, str]:
    """Return the steps before and after the net, for the file's metadata."""
    said = json.loads(deployment.to_text())
    facts = ("classes", "order", "orientation", "shape", "transform")
    steps = {"preprocessing": json.dumps(_steps(deployment))}
    return {name: json.dumps(said[name]) for name in facts} | steps


def _steps(deployment: Deployment) -> list[dict[str, Any]]:
    """Return how an image of any size becomes the net's input: each step with its numbers."""
    transform = deployment.transform
    channels, *size = deployment.shape
    steps: list[dict[str, Any]] = [
        {"step": "decode", "planes": deployment.order, "channels": channels, "range": [0, 255]}
    ]
    if len(size) == 2:
        height, width = size
        how = {"interpolation": "bilinear", "keep_proportions": False}
        steps.append({"step": "resize", "height": height, "width": width, **how})
    normalise: dict[str, Any] = {
        "step": "normalise",
        "formula": "(pixel - mean) * scale / deviation",
        "mean": list(transform.mean) or [0.0],
        "scale": transform.scale,
        "deviation": list(transform.deviation) or [1.0],
    }
    if transform.mean_image is not None:  # of the size before the crop
        normalise["mean"] = "transform.mean_image"
    if transform.crop:
        side = transform.crop
        steps.append({"step": "crop", "height": side, "width": side, "place": "middle"})
    return [*steps, normalise]
