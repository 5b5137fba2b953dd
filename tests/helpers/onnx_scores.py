"""The scores of nets that are read from graphs of ONNX, compared with ONNX's own reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nets import GraphKeys, net_of_graph
from nets.definition.spec import NetSpec
from nets.graph.graph import Net
from nets.imported import Imported
from ops import get_backend

NO_KEYS = GraphKeys()
HEAD = ("SoftmaxWithLoss", "Accuracy")
CLOSE = 1e-5  # relative to the largest number


def scores(spec: NetSpec, found: Imported, x: np.ndarray) -> np.ndarray:
    """The scores of a net for the images x."""
    net = Net(
        spec.for_phase("TEST"), "TEST", ops=get_backend(), batch=len(x), input_shape=x.shape[1:],
        memory="kept",
    )  # fmt: skip
    assert net.params.keys() <= found.weights.keys()
    blobs = {layer: found.weights[layer] for layer in net.params}
    net.run({"data": x, "label": np.zeros(len(x), np.float32)}, blobs)
    loss = next(layer for layer in spec.layers if layer.proto.name == "loss")
    return np.asarray(net.blob(loss.proto.bottom[0]))


def agree(path: Path, keys: GraphKeys = NO_KEYS, rows: tuple[int, ...] = (3, 4)) -> NetSpec:
    """Compare a net with ONNX's reference, for each number of rows. Returns the net."""
    from onnx.reference import ReferenceEvaluator

    reference = ReferenceEvaluator(str(path))
    spec, found = net_of_graph(path, keys)
    for count in rows:
        random = np.random.default_rng(count)
        x = random.standard_normal((count, *_shape(reference))).astype(np.float32)
        (expected,) = reference.run([keys.output or reference.output_names[0]], {"x": x})
        y = scores(spec, found, x).reshape(expected.shape)
        assert np.isfinite(expected).all()
        assert np.abs(y - expected).max() <= CLOSE * np.abs(expected).max()
    return spec


def _shape(reference: Any) -> list[int]:
    dims = reference.proto_.graph.input[0].type.tensor_type.shape.dim
    return [dim.dim_value for dim in dims[1:]]


def types(spec: NetSpec) -> list[str]:
    """The types of the layers between data and loss."""
    return [layer.proto.type for layer in spec.layers[1:] if layer.proto.type not in HEAD]
