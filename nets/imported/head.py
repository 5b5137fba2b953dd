"""The layers that a graph lacks: the data, the loss and the accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nets.errors import NetError
from nets.imported.layers_made import Made, Value, shown
from nets.schema import caffe_pb2 as caffe

ROWS_OF_AN_OPEN_BATCH = 64
# layers between the layer with one output per class and the net's output
BEHIND = ("Flatten", "Reshape", "Pooling", "ReLU", "Dropout", "Softmax", "Permute")


@dataclass(frozen=True)
class GraphKeys:
    """The settings that a graph lacks.

    `batch`: the rows of a batch; 0 takes those of the graph. `output`: the name of the output with
    the scores; "" takes the only one. `loss`: the type of the loss layer. `classes`: the number of
    classes of a new last layer; 0 keeps the graph's own. `label_smoothing`: the share of a
    SoftmaxWithLoss that goes to all classes.
    """

    batch: int = 0
    output: str = ""
    loss: str = "SoftmaxWithLoss"
    classes: int = 0
    label_smoothing: float = 0.0


def complete(made: Made, keys: GraphKeys) -> caffe.NetParameter:
    """Return the net with all layers. Raises NetError if its output has no scores of classes."""
    graph = made.graph
    file = graph.path.name
    name = graph.outputs[0]
    output = made.values[name]
    if not isinstance(output, Value) or not output.is_plain or len(output.sizes) < 2:
        shape = shown(output.shape) if isinstance(output, Value) else "no image"
        raise NetError(f"{file}: output '{name}': found {shape}, expected scores (N, C)")
    if keys.classes:
        _replace_classes(made, output, keys.classes)
    scores = _scores(made, output.blob) if keys.loss == "SoftmaxWithLoss" else output.blob
    net = caffe.NetParameter(name=graph.path.stem)
    net.layer.append(_data(made, keys))
    net.layer.extend(made.layers)
    options: dict[str, Any] = {}
    if keys.label_smoothing:
        options["loss_param"] = {"label_smoothing": keys.label_smoothing}
    net.layer.add(name="loss", type=keys.loss, bottom=[scores, "label"], top=["loss"], **options)
    net.layer.add(
        name="accuracy", type="Accuracy", bottom=[scores, "label"], top=["accuracy"],
        include=[caffe.NetStateRule(phase="TEST")],
    )  # fmt: skip
    return net


def _data(made: Made, keys: GraphKeys) -> caffe.LayerParameter:
    graph = made.graph
    rows = keys.batch or (graph.rows if graph.rows > 1 else ROWS_OF_AN_OPEN_BATCH)
    transform: dict[str, Any] = {}
    if len(graph.shape) == 3 and graph.shape[1] == graph.shape[2]:
        transform = {"transform_param": {"crop_size": graph.shape[1]}}
    return caffe.LayerParameter(
        name="data", type="Data", top=["data", "label"], data_param={"batch_size": rows},
        **transform,
    )  # fmt: skip


def _scores(made: Made, blob: str) -> str:
    """Return the scores that the graph's last softmax reads, without the softmax: the loss has its
    own."""
    last = made.layers[-1]
    if last.type == "Log" and last.top[0] == blob and len(made.layers) > 1:
        blob = last.bottom[0]
        if made.layers[-2].type != "Softmax" or made.layers[-2].top[0] != blob:
            return last.top[0]
        made.layers.pop()
        last = made.layers[-1]
    if last.type != "Softmax" or last.top[0] != blob or last.softmax_param.axis != 1:
        return blob
    made.layers.pop()
    return last.bottom[0]


def _replace_classes(made: Made, output: Value, classes: int) -> None:
    """Give the last layer with weights another name, without weights from the file, and a number of
    outputs."""
    file = made.graph.path.name
    layer = made.maker(output.blob)
    while layer is not None and layer.type in BEHIND and not layer.param:
        layer = made.maker(layer.bottom[0])
    block: caffe.InnerProductParameter | caffe.ConvolutionParameter | None = None
    if layer is not None and layer.type == "InnerProduct":
        block = layer.inner_product_param
    if layer is not None and layer.type == "Convolution":
        block = layer.convolution_param
    if layer is None or block is None or block.num_output != output.sizes[1]:
        kind = "none" if layer is None else f"'{layer.name}' ({layer.type})"
        raise NetError(
            f"{file}: train.onnx.classes: the last layer is {kind}, expected one with "
            f"{output.sizes[1]} outputs, which could be replaced"
        )
    if block.num_output != classes:
        block.num_output = classes
        layer.name = made.named(f"{layer.name}/{classes}_classes")
