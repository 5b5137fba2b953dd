"""The graphs that cuDNN is asked for. NVIDIA's own frontend builds them without a driver."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from nets import Net, load_net
from nets.definition.spec import ZOO
from nets.layers.conv import Convolution
from ops import ConvGeometry, get_backend
from ops.cuda.conv.algorithm import ConvShape, Direction, Epilogue
from ops.cuda.conv.cudnn import B, W, X, Y, graph_of
from ops.cuda.image_layout import new_images

REASON = "the extra 'cudnn' is not installed: NVIDIA's frontend builds the graphs"
cudnn = pytest.importorskip("cudnn", reason=REASON)
IMAGES = {
    "lenet": (1, 28, 28),
    "cifar10_full": (3, 32, 32),
    "cifar10_quick": (3, 32, 32),
    "resnet20": (3, 32, 32),
}
ZOO_NETS = sorted(path.stem for path in ZOO.glob("*.prototxt") if not path.stem.endswith("_solver"))
FLOAT = np.dtype(np.float32)


@cache
def convolutions(name: str) -> frozenset[ConvShape]:
    """The convolutions of a net of the zoo, for two images."""
    size = 227 if name in ("alexnet", "alexnet_owt", "caffenet") else 224
    image = IMAGES.get(name, (3, size, size))
    net = Net(
        load_net(name), "TRAIN", ops=get_backend("emulated"), batch=2, input_shape=image, seed=1
    )
    nodes = [
        node for stage in net.stages for node in stage.nodes if isinstance(node.layer, Convolution)
    ]
    found = set()
    for node in nodes:
        weight = node.layer.params[0].shape
        (bottom,) = node.bottoms
        found.add(ConvShape(net._value(bottom).shape, weight[0], node.layer.geometry, FLOAT))
    return frozenset(found)


def tensors(graph: Any) -> dict[int, dict[str, Any]]:
    """The tensors of a graph by uid, as the frontend reports them."""
    return {tensor["uid"]: tensor for tensor in graph.inspect()["tensors"].values()}


def numbers_apart(array: np.ndarray) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


def places(shape: ConvShape, steps: tuple[int, int]) -> dict[int, np.ndarray]:
    """Arrays with the layouts of the backend's arrays; NumPy computes their strides."""
    k, own, *kernel = shape.weight_shape
    (n, c, *image), (_, _, *out) = shape.in_shape, shape.out_shape
    return {
        X: new_images(np, (n, steps[0], *image), FLOAT)[:, :c],
        W: np.empty((k, *kernel, own), FLOAT).transpose(0, 3, 1, 2),
        Y: new_images(np, (n, steps[1], *out), FLOAT)[:, :k],
    }


def check(shape: ConvShape, steps: tuple[int, int]) -> None:
    for direction in Direction:
        graph = graph_of(cudnn, shape, direction, steps)
        found = tensors(graph)
        expected = places(shape, steps)
        assert found.keys() == expected.keys()
        for uid, array in expected.items():
            assert found[uid]["dim"] == list(array.shape)
            assert found[uid]["stride"] == numbers_apart(array)
            assert (found[uid]["dtype"], found[uid]["is_virtual"]) == ("data_type.FLOAT", False)
        (node,) = graph.inspect()["nodes"]
        geometry = shape.geometry
        assert node["params"] == {
            "padding": list(geometry.pad),
            "stride": list(geometry.stride),
            "dilation": list(geometry.dilation),
        }
        assert node["type"] == {"forward": "CONV_FPROP", "backward-data": "CONV_DGRAD"}.get(
            direction, "CONV_WGRAD"
        )


@pytest.mark.parametrize("name", ZOO_NETS)
def test_every_convolution_of_the_zoo_is_requested_with_the_layout_of_its_arrays(name: str) -> None:
    assert bool(convolutions(name)) == (name != "char_lstm")
    for shape in convolutions(name):
        check(shape, (shape.in_shape[1], shape.outputs))


def test_groups_dilation_and_channels_within_wider_images_are_asked_for() -> None:
    geometry = ConvGeometry((3, 2), stride=(2, 1), pad=(1, 0), dilation=(1, 2), groups=2)
    check(ConvShape((2, 4, 9, 8), 6, geometry, FLOAT), (12, 20))


def test_images_in_bfloat16_have_bfloat16_weights_and_float32_gradients_of_weights() -> None:
    """A result has the type in which it is stored."""
    shape = ConvShape((2, 8, 9, 8), 16, ConvGeometry((3, 3)), FLOAT, (False, True))
    narrow, wide = "data_type.BFLOAT16", "data_type.FLOAT"
    expected = {
        Direction.FORWARD: {X: narrow, W: narrow, Y: narrow},
        Direction.DATA: {X: wide, W: narrow, Y: narrow},
        Direction.WEIGHTS: {X: narrow, W: wide, Y: narrow},
    }
    for direction in Direction:
        found = tensors(graph_of(cudnn, shape, direction, (8, 16)))
        assert {uid: tensor["dtype"] for uid, tensor in found.items()} == expected[direction]


def test_a_bias_and_a_relu_follow_a_convolution_in_one_graph() -> None:
    shape = ConvShape((2, 4, 9, 8), 6, ConvGeometry((3, 3)), FLOAT)
    found = graph_of(cudnn, shape, Direction.FORWARD, (4, 8), Epilogue(True, True)).inspect()
    assert len(found["nodes"]) == 3
    apart = {one["uid"]: one for one in found["tensors"].values() if not one["is_virtual"]}
    assert apart.keys() == {X, W, Y, B} and apart[B]["dim"] == [1, 6, 1, 1]
    assert apart[Y]["stride"] == [7 * 6 * 8, 1, 6 * 8, 8]


def test_the_frontend_computes_the_same_size_of_y() -> None:
    for name in ("googlenet", "alexnet"):
        for shape in convolutions(name):
            graph = cudnn.pygraph()
            g = shape.geometry
            real = cudnn.data_type.FLOAT
            x = graph.tensor(dim=list(shape.in_shape), stride=[1] * 4, data_type=real)
            w = graph.tensor(dim=list(shape.weight_shape), stride=[1] * 4, data_type=real)
            windows = {
                "padding": list(g.pad),
                "stride": list(g.stride),
                "dilation": list(g.dilation),
            }
            assert graph.conv_fprop(image=x, weight=w, **windows).get_dim() == list(shape.out_shape)
