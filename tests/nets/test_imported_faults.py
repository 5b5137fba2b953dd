"""Graphs of ONNX that cannot be trained: each mistake is a line that names the file, the place and
the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets import GraphKeys, NetError, load_net, net_of_graph
from nets.files.weights import read_weights
from tests.helpers.onnx_graphs import Graph, small_net

pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[onnx]'")

Fault = Callable[[Path], None]


def written(change: Callable[[Graph, Any], None]) -> Fault:
    """A fault that changes the model of the small net."""

    def fault(path: Path) -> None:
        graph, out = small_net()
        model = graph.model(out)
        change(graph, model)
        path.write_bytes(model.SerializeToString())

    return fault


def cut_to(share: float) -> Fault:
    def fault(path: Path) -> None:
        graph, out = small_net()
        data = graph.model(out).SerializeToString()
        path.write_bytes(data[: int(len(data) * share)])

    return fault


def bytes_of(data: bytes) -> Fault:
    return lambda path: path.write_bytes(data) and None


def opset(version: int) -> Fault:
    def change(graph: Graph, model: Any) -> None:
        model.opset_import[0].version = version

    return written(change)


def shaped(*shape: Any) -> Fault:
    def fault(path: Path) -> None:
        graph, out = small_net()
        graph.shape = shape
        graph.write(path, out)

    return fault


def two_inputs(graph: Graph, model: Any) -> None:
    kind = graph.onnx.TensorProto.FLOAT
    model.graph.input.append(graph.onnx.helper.make_tensor_value_info("mask", kind, ["N"]))


def no_inputs(graph: Graph, model: Any) -> None:
    del model.graph.input[:]


def whole_numbers(graph: Graph, model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = graph.onnx.TensorProto.UINT8


def no_outputs(graph: Graph, model: Any) -> None:
    del model.graph.output[:]


def unmade_output(graph: Graph, model: Any) -> None:
    model.graph.output[0].name = "nowhere"


def cycle(graph: Graph, model: Any) -> None:
    model.graph.node[0].input[0] = model.graph.node[3].output[0]


def unmade_input(graph: Graph, model: Any) -> None:
    model.graph.node[3].input[0] = "nowhere"


def made_twice(graph: Graph, model: Any) -> None:
    model.graph.node[2].output[0] = model.graph.node[1].output[0]
    model.graph.node[3].input[0] = model.graph.node[1].output[0]


def wrong_weight(graph: Graph, model: Any) -> None:
    change_tensor(graph, model, 0, np.ones((8, 5, 3, 3), np.float32))


def missing_numbers(graph: Graph, model: Any) -> None:
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]


def part_of_a_number(graph: Graph, model: Any) -> None:
    model.graph.initializer[0].raw_data += b"x"


def wrong_attribute(graph: Graph, model: Any) -> None:
    helper = graph.onnx.helper
    model.graph.node[0].attribute.append(helper.make_attribute("group", "eight"))


def negative_sizes(graph: Graph, model: Any) -> None:
    model.graph.initializer[0].dims[0] = -8


def huge_sizes(graph: Graph, model: Any) -> None:
    model.graph.initializer[0].dims[0] = 2**50


def texts(graph: Graph, model: Any) -> None:
    model.graph.initializer[0].data_type = graph.onnx.TensorProto.STRING


def external(location: str, length: int = 288) -> Fault:
    def change(graph: Graph, model: Any) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = graph.onnx.TensorProto.EXTERNAL
        facts = {"location": location, "offset": "0", "length": str(length)}
        for key, value in facts.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value

    return written(change)


def change_tensor(graph: Graph, model: Any, at: int, array: np.ndarray) -> None:
    tensor = model.graph.initializer[at]
    tensor.CopyFrom(graph.onnx.numpy_helper.from_array(array, tensor.name))


def quantised(path: Path) -> None:
    graph = Graph()
    low = graph.op("QuantizeLinear", "x", np.float32(0.1))
    graph.write(path, graph.scores(graph.op("DequantizeLinear", low, np.float32(0.1)), 192))


def attention(path: Path) -> None:
    graph = Graph()
    x = graph.op("Reshape", "x", [0, 3, 64])
    y = graph.op("MatMul", x, graph.op("Transpose", x, perm=[0, 2, 1]))
    graph.write(path, graph.scores(y, 9))


def joined_rows(path: Path) -> None:
    graph = Graph()
    graph.write(path, graph.scores(graph.op("Reshape", "x", [-1, 64]), 64))


def not_scores(path: Path) -> None:
    graph = Graph()
    graph.write(path, graph.op("ReduceMean", "x", axes=[1, 2, 3], keepdims=0))


def unknown_operator(path: Path) -> None:
    graph = Graph()
    x = graph.op("Erf", graph.op("Sin", graph.op("Sin", "x")))
    graph.write(path, graph.scores(graph.op("Add", x, graph.op("Cos", "x")), 192))


def bomb(path: Path) -> None:
    graph = Graph()
    large = graph.op("ConstantOfShape", np.array([2**40]))
    graph.write(path, graph.scores(graph.op("Add", "x", large), 192))


def resized(scale: float, **attributes: Any) -> Fault:
    def fault(path: Path) -> None:
        graph = Graph()
        scales = np.array([1.0, 1.0, scale, scale], np.float32)
        y = graph.op("Resize", "x", "", scales, **attributes)
        graph.write(path, graph.scores(y, 3 * int(8 * scale) ** 2))

    return fault


CORNERS = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
SHIFTED = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}


def wide_window(path: Path) -> None:
    graph = Graph()
    graph.write(path, graph.scores(graph.op("MaxPool", "x", kernel_shape=[9, 9]), 3))


FAULTS: dict[str, tuple[Fault, str]] = {
    "an empty file": (bytes_of(b""), "found no operators"),
    "a text": (bytes_of(b"layer { name: 'data' }"), "it ends early or is damaged"),
    "half a file": (cut_to(0.5), "it ends early or is damaged"),
    "nearly a file": (cut_to(0.99), "it ends early or is damaged"),
    "opset 9": (opset(9), "found opset 9, expected 13 to 21"),
    "opset 25": (opset(25), "found opset 25, expected 13 to 21"),
    "open height": (shaped("N", 1, "height", 8), "found open sizes height"),
    "an input of three axes": (shaped("N", 1, 8), "found 3 axes, expected images (N, C, H, W)"),
    "two inputs": (written(two_inputs), "found inputs 'x', 'mask', expected one"),
    "no input": (written(no_inputs), "found inputs none, expected one"),
    "an input of bytes": (written(whole_numbers), "found uint8, expected float32"),
    "no output": (written(no_outputs), "found outputs none"),
    "an output that no node makes": (written(unmade_output), "no node makes the output 'nowhere'"),
    "a cycle": (written(cycle), "a later node makes it: the graph has a cycle"),
    "a value that no node makes": (written(unmade_input), "reads 'nowhere', but no node makes it"),
    "a value that is made twice": (written(made_twice), "which exists already"),
    "a weight of another shape": (written(wrong_weight), "its weight has shape (8, 5, 3, 3)"),
    "a tensor without its last number": (written(missing_numbers), "found 284 bytes, expected 288"),
    "a tensor with a part of a number": (written(part_of_a_number), "found 289 bytes"),
    "an attribute of another type": (written(wrong_attribute), "an attribute or a constant does"),
    "an image of a million pixels": (shaped("N", 1, 2**21, 8), "found a size of 2097152"),
    "negative sizes": (written(negative_sizes), "found shape (-8, 1, 3, 3)"),
    "huge sizes": (written(huge_sizes), "expected at most 536870912 numbers"),
    "a tensor of texts": (written(texts), "found data type string, expected float"),
    "external data that is missing": (external("net.data"), "copy this file with net.onnx"),
    "external data outside the folder": (external("../secret"), "expected a file next to net.onnx"),
    "external data of another length": (external("net.data", 7), "expected 288 bytes"),
    "a quantised graph": (quantised, "a quantised graph cannot be trained"),
    "attention": (attention, "a product of two computed arrays, as in attention, has no layer"),
    "rows that are joined": (joined_rows, "it joins or cuts the rows"),
    "an output without classes": (not_scores, "expected scores (N, C)"),
    "a constant of a terabyte": (bomb, "an array of shape (1099511627776,)"),
    "a resize between corners": (
        resized(2.0, **CORNERS),
        "it is linear, align_corners from (8, 8)",
    ),
    "a resize to half": (resized(0.5, mode="linear"), "from (8, 8) to [4, 4], expected whole"),
    "a resize by cubes": (resized(2.0, mode="cubic"), "it is cubic, half_pixel from (8, 8)"),
    "a resize between pixels": (resized(2.0, **SHIFTED), "it is nearest, asymmetric, ceil"),
    "a window larger than the image": (wide_window, "its window of 9 is larger than 8 pixels"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_graph_that_cannot_be_trained_is_refused_in_one_line(tmp_path, name):
    fault, expected = FAULTS[name]
    fault(tmp_path / "net.onnx")
    with pytest.raises(NetError) as caught:
        load_net(tmp_path / "net.onnx")
    (line,) = caught.value.problems
    assert expected in line
    assert "net.onnx" in line
    assert "\n" not in line


def test_all_operators_without_a_layer_are_named_at_once(tmp_path):
    unknown_operator(tmp_path / "net.onnx")
    with pytest.raises(NetError) as caught:
        load_net(tmp_path / "net.onnx")
    assert [line.partition(": ")[2] for line in caught.value.problems] == [
        "Sin 'Sin_0': no layer computes this operator",
        "Cos 'Cos_3': no layer computes this operator",
    ]


def test_a_refused_graph_of_the_newer_exporter_names_the_exporter_to_use(tmp_path):
    graph = Graph()
    model = graph.model(graph.scores(graph.op("Sin", "x"), 192))
    model.graph.node[0].name = "node_sin"
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(NetError) as caught:
        load_net(tmp_path / "net.onnx")
    first, last = caught.value.problems
    assert first == "net.onnx: Sin 'node_sin': no layer computes this operator"
    assert "torch.onnx.export(..., dynamo=False)" in last


def test_any_damaged_byte_is_refused_in_words_or_read(tmp_path):
    graph, out = small_net()
    data = bytearray(graph.model(out).SerializeToString())
    path = tmp_path / "net.onnx"
    random = np.random.default_rng(7)
    for _ in range(300):
        damaged = bytearray(data)
        for at in random.integers(0, len(data), 3):
            damaged[at] = random.integers(0, 256)
        path.write_bytes(damaged)
        for read in (load_net, read_weights):
            try:
                read(path)
            except NetError as error:
                assert all(problem for problem in error.problems)


def test_folded_batch_normalisation_is_reported(tmp_path):
    graph = Graph()
    x = graph.op("Conv", "x", graph.weight(4, 3, 3, 3), graph.weight(4), kernel_shape=[3, 3])
    path = graph.write(tmp_path / "net.onnx", graph.scores(x, 4 * 36))
    (line,) = net_of_graph(path)[1].told
    assert "training=TrainingMode.PRESERVE, do_constant_folding=False" in line
    graph, out = small_net()
    assert net_of_graph(graph.write(path, out))[1].told == ()


def test_parameters_that_only_other_arrays_are_computed_from_are_reported(tmp_path):
    graph = Graph()
    weight = graph.weight(4, 3, 3, 3)
    centred = graph.op("Sub", weight, graph.op("ReduceMean", weight, axes=[1, 2, 3]))
    x = graph.norm(graph.op("Conv", "x", centred, kernel_shape=[3, 3]), 4)
    path = graph.write(tmp_path / "net.onnx", graph.scores(x, 4 * 36))
    (line,) = net_of_graph(path)[1].told
    assert "parameters 'm0.weight' are not used as they are" in line


def test_classes_need_a_last_layer_that_can_be_replaced(tmp_path):
    graph = Graph()
    path = graph.write(tmp_path / "net.onnx", graph.op("Flatten", "x"))
    with pytest.raises(NetError, match="expected one with 192 outputs"):
        net_of_graph(path, GraphKeys(classes=3))


def test_an_unknown_output_is_answered_with_the_nearest(tmp_path):
    graph, out = small_net()
    path = graph.write(tmp_path / "net.onnx", out)
    with pytest.raises(NetError, match=f"did you mean '{out}'"):
        net_of_graph(path, GraphKeys(output=out[:-1]))
