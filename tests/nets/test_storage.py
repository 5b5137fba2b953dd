"""Values that are stored in bfloat16: the choice, the memory that it saves, and the numbers of a
pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import Net
from ops import BFLOAT16, Array, Backend, get_backend
from tests.nets.support import spec_of
from tests.nets.test_joins import BIASED, layer
from tests.nets.test_memory import check_same, one_pass

HEAD = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 8 dim: 20 dim: 9 dim: 9 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 8 } } }
"""
AVERAGE = "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }"
GLOBAL = "pooling_param { pool: AVE global_pooling: true }"
MAX = "pooling_param { pool: MAX kernel_size: 3 stride: 2 }"
CONV = 'convolution_param { num_output: 24 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: "msra" } }'
DENSE = 'inner_product_param { num_output: 3 weight_filler { type: "xavier" } }'


def block(bottom: str, top: str) -> str:
    """BatchNorm, Scale and ReLU."""
    return (
        layer(f"{top}_norm", "BatchNorm", bottom, top)
        + layer(f"{top}_scale", "Scale", top, top, BIASED)
        + layer(f"{top}_relu", "ReLU", top, top)
    )


RESIDUAL = (
    HEAD
    + layer("first", "Pooling", "data", "first", AVERAGE)
    + block("first", "a")
    + layer("second", "Pooling", "a", "b", AVERAGE)
    + layer("b_norm", "BatchNorm", "b", "c")
    + layer("b_scale", "Scale", "c", "c", BIASED)
    + layer("sum", "Eltwise", "c a", "c")
    + layer("c_relu", "ReLU", "c", "c")
    + layer("largest", "Pooling", "c", "e", MAX)
    + layer("mean", "Pooling", "e", "f", GLOBAL)
    + layer("fc", "InnerProduct", "f", "fc", DENSE)
    + layer("loss", "SoftmaxWithLoss", "fc label", "loss")
)


def storing(stores: bool = True, threads: int = 1) -> Backend:
    """The CPU backend, whose kernels take bfloat16 arrays on every processor."""
    ops = get_backend("cpu", threads=threads, precision="exact")
    ops.stores_bfloat16 = stores
    return ops


def net_of(tmp_path: Path, text: str, stores: bool = True, **options) -> Net:
    return Net(spec_of(tmp_path, text), "TRAIN", ops=storing(stores), seed=3, **options)


def narrow(net: Net) -> set[str]:
    """The blobs of which some value is bfloat16."""
    return {value.name for value in net.wiring.values if value.dtype == BFLOAT16}


def off(found: Array, expected: Array) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_values_are_bfloat16_where_the_maker_and_all_readers_can_hold_them(tmp_path: Path) -> None:
    assert narrow(net_of(tmp_path, RESIDUAL)) == {"first", "a", "b", "c", "e"}
    assert narrow(net_of(tmp_path, RESIDUAL, stores=False)) == set()
    assert narrow(net_of(tmp_path, RESIDUAL, dtype=np.float64)) == set()
    other = RESIDUAL + layer("tanh", "TanH", "b", "tanh") + layer("end", "Silence", "tanh", "")
    assert narrow(net_of(tmp_path, other.replace('top: "" ', ""))) == {"first", "a", "c", "e"}


def test_values_that_share_memory_or_gradients_have_one_dtype(tmp_path: Path) -> None:
    """TanH reads a, whose gradient is that of the sum c."""
    text = RESIDUAL + layer("tanh", "TanH", "a", "tanh") + layer("end", "Silence", "tanh", "")
    net = net_of(tmp_path, text.replace('top: "" ', ""))
    last = {name: net.wiring.values[i].dtype for name, i in net._names.items()}
    assert {name for name, dtype in last.items() if dtype == BFLOAT16} == {"first", "b", "e"}
    one_pass(net, 0)


def test_a_net_with_bfloat16_values_has_nearly_the_numbers_of_float32(tmp_path: Path) -> None:
    expected, gradients = one_pass(net_of(tmp_path, RESIDUAL, stores=False), 0)
    scores, found = one_pass(net_of(tmp_path, RESIDUAL), 0)
    assert scores["loss"] == pytest.approx(expected["loss"], rel=0.01)
    assert scores != expected
    for ours, theirs in zip(found, gradients, strict=True):
        assert ours.dtype == np.float32
        assert off(ours, theirs) < 0.02


def test_convolutions_read_and_write_bfloat16_images(tmp_path: Path) -> None:
    text = (
        HEAD
        + layer("conv1", "Convolution", "data", "a", CONV)
        + block("a", "a")
        + layer("conv2", "Convolution", "a", "b", CONV)
        + layer("conv3", "Convolution", "b", "c", CONV.replace("bias_term: false", "group: 24"))
        + layer("relu", "ReLU", "c", "c")
        + layer("sum", "Eltwise", "c a", "d")
        + layer("mean", "Pooling", "d", "f", GLOBAL)
        + layer("fc", "InnerProduct", "f", "fc", DENSE)
        + layer("loss", "SoftmaxWithLoss", "fc label", "loss")
    )
    net = net_of(tmp_path, text)
    assert narrow(net) == {"a", "b", "c", "d"}
    expected, gradients = one_pass(net_of(tmp_path, text, stores=False), 0)
    scores, found = one_pass(net, 0)
    assert scores["loss"] == pytest.approx(expected["loss"], rel=0.01)
    for ours, theirs in zip(found, gradients, strict=True):
        assert ours.dtype == np.float32
        assert off(ours, theirs) < 0.03
    check_same(net, net_of(tmp_path, text, memory="reused"))


def test_shared_memory_changes_no_bit_and_takes_half_of_the_bytes(tmp_path: Path) -> None:
    kept, reused = (net_of(tmp_path, RESIDUAL, memory=memory) for memory in ("kept", "reused"))
    check_same(kept, reused)
    wide = net_of(tmp_path, RESIDUAL, stores=False, memory="reused").memory_plan
    assert reused.memory_plan.size < 0.65 * wide.size
    assert wide.narrow == 0 < reused.memory_plan.narrow
    for region in reused.memory_plan.regions:
        images = len(region.shape) == 4 and region.shape[2] > 1 and region.key != "argmax"
        assert (region.dtype == BFLOAT16) == images, region


def test_values_that_leave_the_process_are_float32(tmp_path: Path) -> None:
    text = RESIDUAL.replace(layer("mean", "Pooling", "e", "f", GLOBAL), "").replace('"f"', '"e"')
    for part in ("conv", "all"):  # the same values, so that presets have the same bits
        assert narrow(net_of(tmp_path, text, part=part)) == {"first", "a", "b", "c"}


def test_a_blob_is_read_in_the_dtype_of_the_net(tmp_path: Path) -> None:
    net = net_of(tmp_path, RESIDUAL)
    one_pass(net, 0)
    wide = net_of(tmp_path, RESIDUAL, stores=False)
    one_pass(wide, 0)
    assert net.blob("c").dtype == np.float32
    assert off(net.blob("c"), wide.blob("c")) < 0.01


def test_factors_of_planes_are_float32_and_their_images_bfloat16(tmp_path: Path) -> None:
    gated = (
        HEAD
        + layer("first", "Pooling", "data", "first", AVERAGE)
        + block("first", "a")
        + layer("mean", "Pooling", "a", "m", GLOBAL)
        + layer("gate", "Sigmoid", "m", "gate")
        + layer("flat", "Flatten", "gate", "flat")
        + layer("scale", "Scale", "a flat", "b", "scale_param { axis: 0 }")
        + layer("depth", "StochasticDepth", "b", "d", "dropout_param { dropout_ratio: 0.2 }")
        + layer("swish", "HardSwish", "d", "d")
        + layer("end", "Pooling", "d", "f", GLOBAL)
        + layer("fc", "InnerProduct", "f", "fc", DENSE)
        + layer("loss", "SoftmaxWithLoss", "fc label", "loss")
    )
    net = net_of(tmp_path, gated)
    assert narrow(net) == {"first", "a", "b", "d"}
    expected, gradients = one_pass(net_of(tmp_path, gated, stores=False), 0)
    scores, found = one_pass(net, 0)
    assert scores["loss"] == pytest.approx(expected["loss"], rel=0.01)
    for ours, theirs in zip(found, gradients, strict=True):
        assert off(ours, theirs) < 0.02
    check_same(net, net_of(tmp_path, gated, memory="reused"))


def test_joined_channels_are_bfloat16_together(tmp_path: Path) -> None:
    joined = (
        HEAD
        + layer("first", "Pooling", "data", "first", AVERAGE)
        + block("first", "a")
        + block("a", "b")
        + layer("join", "Concat", "a b", "c")
        + layer("split", "Split", "c", 'd" top: "e')
        + layer("half", "Eltwise", "d e", "g", "eltwise_param { coeff: 0.5 coeff: 1 }")
        + layer("clip", "Clip", "g", "g", "clip_param { min: 0.1 max: 6 }")
        + layer("mean", "Pooling", "g", "f", GLOBAL)
        + layer("fc", "InnerProduct", "f", "fc", DENSE)
        + layer("loss", "SoftmaxWithLoss", "fc label", "loss")
    )
    net = net_of(tmp_path, joined)
    assert narrow(net) == {"first", "a", "b", "c", "d", "e", "g"}
    expected, gradients = one_pass(net_of(tmp_path, joined, stores=False), 0)
    scores, found = one_pass(net, 0)
    assert scores["loss"] == pytest.approx(expected["loss"], rel=0.01)
    for ours, theirs in zip(found, gradients, strict=True):
        assert off(ours, theirs) < 0.02
    check_same(net, net_of(tmp_path, joined, memory="reused"))
