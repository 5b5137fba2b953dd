"""Graphs of ONNX as nets: every operator that is read gives the numbers of ONNX's own reference,
with any number of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nets import load_net, net_of_graph
from nets.imported.converters import CONVERTERS
from tests.helpers.onnx_graphs import Graph, small_net
from tests.helpers.onnx_scores import agree, scores, types

pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[onnx]'")

Image = tuple[str, int]  # a value, and how many numbers a row of it has


def test_a_small_residual_net_computes_the_same_and_has_the_names_of_its_modules(tmp_path):
    graph, out = small_net()
    spec = agree(graph.write(tmp_path / "net.onnx", out))
    assert types(spec).count("BatchNorm") == types(spec).count("Scale") == 5
    assert [layer.proto.name for layer in spec.layers][-3:] == ["fc", "loss", "accuracy"]


def test_each_kind_of_image_operator_has_a_case():
    elsewhere = {"BatchNormalization", "LogSoftmax", "Softmax", "SiLU", "Gemm", "Upsample"}
    cases = [*CASES.values(), *(case for _, case in NEW.values())]
    tried = {node.op_type for case in cases for node in nodes_of(case)}
    assert CONVERTERS.keys() - elsewhere - tried == set()


def nodes_of(case: Callable[[Graph], Image]) -> list:
    graph = Graph()
    graph.scores(*case(graph))
    return graph.nodes


@pytest.mark.parametrize("opset", range(13, 22))
def test_a_file_of_each_opset_is_the_same_net(tmp_path, opset):
    graph, out = small_net()
    expected = load_net(graph.write(tmp_path / "net.onnx", out))
    graph.opset = opset
    assert load_net(graph.write(tmp_path / "net.onnx", out)).proto == expected.proto


def unary(kind: str, **attributes) -> Callable[[Graph], Image]:
    return lambda g: (g.op(kind, "x", **attributes), 192)


def positive(kind: str) -> Callable[[Graph], Image]:
    return lambda g: (g.op(kind, g.op("Add", g.op("Abs", "x"), 0.5)), 192)


def grouped(g: Graph) -> Image:
    x = g.conv("x", 3, 6)
    return g.op("Conv", x, g.weight(4, 3, 3, 3), group=2, strides=[2, 1], pads=[1] * 4), 4 * 4 * 8


def depthwise(g: Graph) -> Image:
    y = g.op("Conv", "x", g.weight(6, 1, 3, 3), group=3, dilations=[2, 2])
    return y, 6 * 4 * 4


def one_sided(g: Graph) -> Image:
    bias = g.weight(4, module="bias")
    y = g.op("Conv", "x", g.weight(4, 3, 3, 3), bias, strides=[2, 2], pads=[0, 0, 1, 1])
    return y, 4 * 4 * 4


def same(g: Graph) -> Image:
    return g.op("Conv", "x", g.weight(4, 3, 4, 4), auto_pad="SAME_UPPER"), 4 * 64


def along_channels(g: Graph) -> Image:
    means = g.op("GlobalAveragePool", g.conv("x", 3, 6))
    line = g.op("Unsqueeze", g.op("Squeeze", means, [2, 3]), [1])
    gate = g.op("Sigmoid", g.op("Conv", line, g.weight(1, 1, 3), pads=[1, 1]))
    gate = g.op("Reshape", gate, [0, 6, 1, 1])
    return g.op("Mul", g.conv("x", 3, 6), g.op("Expand", gate, [1, 6, 8, 8])), 6 * 64


def transposed(g: Graph) -> Image:
    return g.op("ConvTranspose", "x", g.weight(3, 4, 3, 3), strides=[2, 2], pads=[1] * 4), 4 * 225


def pool(kind: str, height: int = 4, **attributes) -> Callable[[Graph], Image]:
    return lambda g: (
        g.op(kind, "x", kernel_shape=[3, 3], strides=[2, 2], **attributes),
        3 * height * height,
    )


def one_sided_pool(g: Graph) -> Image:
    return g.op("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]), 3 * 16


def squeezed(kind: str) -> Callable[[Graph], Image]:
    def case(g: Graph) -> Image:
        x = g.conv("x", 3, 6)
        gate = g.op("Sigmoid", g.conv(g.op("ReduceMean", x, axes=[2, 3]), 6, 6, 1))
        return g.op(kind, x, gate), 6 * 64

    return case


def quotient(g: Graph) -> Image:
    return g.op("Div", "x", g.op("Add", g.op("Abs", g.conv("x", 3, 3)), 1.0)), 192


def spatial_gate(g: Graph) -> Image:
    gate = g.op("ReduceMean", "x", axes=[1])
    most = g.op("ReduceMax", "x", axes=[1])
    return g.op("Mul", "x", g.op("Add", gate, most)), 192


def arithmetic(g: Graph) -> Image:
    x = g.op("Sub", 2.0, g.op("Mul", "x", g.weight(3, 1, 1)))
    x = g.op("Add", g.op("Div", x, 3.0), g.weight(1, 3, 1, 8))
    y = g.op("Sub", x, g.conv("x", 3, 3))
    return g.op("Sum", g.op("Max", x, y), y, g.op("Neg", g.op("Pow", x, 2.0))), 192


def shuffled(g: Graph) -> Image:
    x = g.op("Reshape", g.conv("x", 3, 6), [0, 2, 3, 8, 8])
    return g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 1, 3, 4]), [0, 6, 8, 8]), 6 * 64


def rows_from_shape(g: Graph) -> Image:
    rows = g.op("Gather", g.op("Shape", "x"), np.array(0), axis=0)
    sizes = g.op("Concat", g.op("Unsqueeze", rows, [0]), np.array([-1]), axis=0)
    return g.op("Reshape", "x", sizes), 192


def last_channels(g: Graph) -> Image:
    """A block of ConvNeXt: the channels are the last axis, and no layer moves them there."""
    x = g.op("Transpose", g.conv("x", 3, 6), perm=[0, 2, 3, 1])
    x = g.op("LayerNormalization", x, g.weight(6), g.weight(6), axis=-1)
    x = g.op("Add", g.op("MatMul", x, g.weight(6, 12)), g.weight(12))
    x = g.op("MatMul", g.op("Relu", x), g.weight(12, 6))
    return g.op("Transpose", g.op("Mul", x, g.weight(6)), perm=[0, 3, 1, 2]), 6 * 64


def cut(g: Graph) -> Image:
    a, b, c = g.op("Split", g.conv("x", 3, 6), [1, 3, 2], outputs=3, axis=1)
    joined = g.op("Concat", c, g.op("Relu", a), b, axis=1)
    part = g.op("Slice", joined, [1], [-1], [1])
    return g.op("Concat", part, g.op("Gather", joined, np.array([5]), axis=1), axis=1), 5 * 64


def sequence(g: Graph) -> Image:
    parts = g.op("SplitToSequence", g.conv("x", 3, 5), np.array(2), axis=1)
    last, first, middle = (g.op("SequenceAt", parts, np.array(at)) for at in (2, 0, 1))
    return g.op("Concat", last, g.op("Relu", first), middle, axis=1), 5 * 64


def erf_gelu(g: Graph) -> Image:
    gate = g.op("Add", g.op("Erf", g.op("Div", "x", 2**0.5)), 1.0)
    return g.op("Mul", g.op("Mul", "x", gate), 0.5), 192


def silu(g: Graph) -> Image:
    return g.op("Mul", "x", g.op("Sigmoid", "x")), 192


def mish_by_parts(g: Graph) -> Image:
    return g.op("Mul", "x", g.op("Tanh", g.op("Softplus", "x"))), 192


def old_layer_norm(g: Graph) -> Image:
    x = g.op("Transpose", "x", perm=[0, 2, 3, 1])
    minus = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1]))
    square = g.op("ReduceMean", g.op("Pow", minus, 2.0), axes=[-1])
    y = g.op("Div", minus, g.op("Sqrt", g.op("Add", square, 1e-5)))
    return g.op("Add", g.op("Mul", y, g.weight(3)), g.weight(3)), 192


def clipped(g: Graph) -> Image:
    low = g.op("Clip", "x", "", np.float32(0.5))
    return g.op("Clip", g.op("Clip", low, np.float32(-1), np.float32(0.3)), np.float32(0)), 192


def inside_means(g: Graph) -> Image:
    options = {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 0}
    return g.op("AveragePool", "x", **options), 192


def sums(g: Graph) -> Image:
    x = g.op("ReduceSum", "x", [2, 3])
    y = g.op("ReduceL2", "x", axes=[2], keepdims=0)
    return g.op("Concat", g.op("Flatten", x), g.op("Flatten", y), axis=1), 3 + 24


def grid(g: Graph) -> Image:
    y = g.op("Resize", "x", "", np.array([1.0, 1.0, 2.0, 2.0], np.float32), mode="nearest")
    return y, 3 * 256


def by_torch(g: Graph) -> Image:
    places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales = np.array([1.0, 1.0, 4.0, 2.0], np.float32)
    return g.op("Resize", "x", "", scales, mode="nearest", **places), 3 * 512


def bilinear(*paces: int) -> Callable[[Graph], Image]:
    def resized(g: Graph) -> Image:
        x = g.conv("x", 3, 3)  # its weights get a gradient through the resized image
        scales = np.array([1.0, 1.0, *paces], np.float32)
        return g.op("Resize", x, "", scales, mode="linear"), 3 * 64 * paces[0] * paces[1]

    return resized


def repeated_border(g: Graph) -> Image:
    return g.op("Pad", "x", [0, 0, 1, 0, 0, 0, 2, 2], mode="edge"), 3 * 11 * 10


def bordered(g: Graph) -> Image:
    return g.op("Pad", "x", [0, 0, 1, 0, 0, 0, 0, 2], np.float32(0.5)), 3 * 9 * 10


def groups(g: Graph) -> Image:
    x = g.conv("x", 3, 6)
    x = g.op("InstanceNormalization", x, g.weight(6, low=0.5), g.weight(6), epsilon=1e-3)
    y = g.op("Reshape", x, [0, 2, -1])
    y = g.op("InstanceNormalization", y, np.ones(2), np.zeros(2))
    return g.op("Mul", g.op("Reshape", y, [0, 6, 8, 8]), g.weight(6, 1, 1)), 6 * 64


CASES: dict[str, Callable[[Graph], Image]] = {
    **{
        kind: unary(kind)
        for kind in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus", "Abs", "Exp", "Neg")
    },
    **{kind: positive(kind) for kind in ("Log", "Sqrt", "Reciprocal")},
    "LeakyRelu": unary("LeakyRelu", alpha=0.2),
    "Elu": unary("Elu", alpha=0.7),
    "HardSigmoid": unary("HardSigmoid", alpha=0.3, beta=0.4),
    "HardSigmoid of Caffe's slope": unary("HardSigmoid", alpha=1 / 6),
    "Dropout": lambda g: (g.op("Dropout", "x", np.float32(0.3)), 192),
    "Cast": unary("Cast", to=1),
    "Identity": unary("Identity"),
    "GlobalAveragePool": lambda g: (g.op("GlobalAveragePool", "x"), 3),
    "CastLike": lambda g: (g.op("CastLike", "x", "x"), 192),
    "PRelu": lambda g: (g.op("PRelu", "x", g.weight(3, 1, 1)), 192),
    "LRN": unary("LRN", size=3, alpha=0.3, beta=0.6, bias=1.5),
    "Conv, grouped": grouped,
    "Conv, depthwise and dilated": depthwise,
    "Conv with padding on one side": one_sided,
    "Conv, SAME_UPPER": same,
    "Conv along channels": along_channels,
    "ConvTranspose": transposed,
    "MaxPool": pool("MaxPool", 4, pads=[1] * 4),
    "MaxPool with padding on one side": one_sided_pool,
    "AveragePool": pool("AveragePool", 3),
    "AveragePool with a border": pool("AveragePool", 4, pads=[1] * 4, count_include_pad=1),
    "AveragePool inside": inside_means,
    "GlobalMaxPool": lambda g: (g.op("GlobalMaxPool", "x"), 3),
    "squeeze and excitation": squeezed("Mul"),
    "a sum of one number per channel": squeezed("Add"),
    "a difference of one number per channel": squeezed("Sub"),
    "a quotient of one number per channel": squeezed("Div"),
    "a quotient": quotient,
    "a gate of one number per pixel": spatial_gate,
    "arithmetic with constants": arithmetic,
    "channel shuffle": shuffled,
    "a shape that is computed": rows_from_shape,
    "channels last": last_channels,
    "parts": cut,
    "parts of a sequence": sequence,
    "GELU by Erf": erf_gelu,
    "SiLU by parts": silu,
    "Mish by parts": mish_by_parts,
    "LayerNorm by parts": old_layer_norm,
    "Clip": clipped,
    "sums": sums,
    "Resize": grid,
    "Resize, by torch": by_torch,
    "Resize, bilinear by 2": bilinear(2, 2),
    "Resize, bilinear by 3 and 1": bilinear(3, 1),
    "Resize, bilinear by 4": bilinear(4, 4),
    "Pad": bordered,
    "Pad with the nearest pixels": repeated_border,
    "InstanceNorm and GroupNorm": groups,
}
NEW: dict[str, tuple[int, Callable[[Graph], Image]]] = {
    "Gelu": (20, unary("Gelu")),
    "Gelu by tanh": (20, unary("Gelu", approximate="tanh")),
    "Mish": (18, unary("Mish")),
    "GroupNormalization": (
        21,
        lambda g: (
            g.op("GroupNormalization", "x", g.weight(3), g.weight(3), num_groups=3),
            192,
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_the_numbers_of_the_reference(tmp_path, name):
    graph = Graph(opset=17)
    rows = (3,) if name == "LRN" else (2, 3)  # the reference's LRN needs as many rows as channels
    agree(graph.write(tmp_path / "net.onnx", graph.scores(*CASES[name](graph))), rows=rows)


@pytest.mark.parametrize("name", NEW)
def test_an_operator_of_a_later_opset_gives_the_numbers_of_the_reference(tmp_path, name):
    opset, case = NEW[name]
    graph = Graph(opset=opset)
    agree(graph.write(tmp_path / "net.onnx", graph.scores(*case(graph))))


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (silu, ["SiLU"]),
        (erf_gelu, ["GELU"]),
        (last_channels, ["Convolution", "LayerNorm", "Scale", "Convolution", "ReLU"]),
        (old_layer_norm, ["LayerNorm", "Scale"]),
        (depthwise, ["DepthwiseConvolution"]),
        (clipped, ["Clip", "Clip", "ReLU"]),
    ],
)
def test_a_composition_becomes_the_layer_that_computes_it(tmp_path, case, expected):
    graph = Graph()
    spec = load_net(graph.write(tmp_path / "net.onnx", graph.scores(*case(graph))))
    assert types(spec)[: len(expected)] == expected


def test_a_bias_is_not_given_to_a_product_that_another_node_reads(tmp_path):
    graph = Graph()
    product = graph.conv("x", 3, 6)
    same = graph.op("Identity", product)
    biased = graph.op("Add", same, graph.weight(6, 1, 1))
    y = graph.op("Concat", biased, graph.op("Relu", product), axis=1)
    spec = agree(graph.write(tmp_path / "net.onnx", graph.scores(y, 12 * 64)))
    assert types(spec)[:2] == ["Convolution", "Bias"]


def test_a_file_written_for_two_rows_computes_any_number_of_rows(tmp_path):
    graph = Graph((2, 3, 8, 8))
    x = graph.op("Reshape", graph.conv("x", 3, 6), [2, 2, 3, 8, 8])
    x = graph.op("Reshape", graph.op("Transpose", x, perm=[0, 2, 1, 3, 4]), [2, 6, -1])
    path = graph.write(tmp_path / "net.onnx", graph.scores(x, 6 * 64))
    agree(path, rows=(2,))
    spec, found = net_of_graph(path)
    x = np.random.default_rng(1).standard_normal((4, 3, 8, 8)).astype(np.float32)
    halves = [scores(spec, found, part) for part in (x[:2], x[2:])]
    assert np.allclose(scores(spec, found, x), np.concatenate(halves), rtol=1e-5, atol=1e-5)
