"""Layers that are joined into one operation of the backend: the numbers equal those of the single
layers, and every name still exists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from nets import Net, NetError, load_net
from nets.layers.elementwise import ReLU
from ops import Backend, get_backend
from tests.nets.support import spec_of
from tests.nets.test_memory import graphs

HEAD = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 dim: 5 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 3 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
"""
TAIL = """
layer { name: "fc" type: "InnerProduct" bottom: "LAST" top: "fc"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
"""


def layer(name: str, kind: str, bottoms: str, top: str, more: str = "") -> str:
    read = " ".join(f'bottom: "{bottom}"' for bottom in bottoms.split())
    return f'layer {{ name: "{name}" type: "{kind}" {read} top: "{top}" {more} }}\n'


def norm(bottom: str = "conv", top: str = "conv", more: str = "") -> str:
    return layer("norm", "BatchNorm", bottom, top, more)


BIASED = "scale_param { bias_term: true filler { value: 1.5 } bias_filler { value: 0.1 } }"


def scale(bottom: str = "conv", top: str = "conv", more: str = BIASED) -> str:
    return layer("scale", "Scale", bottom, top, more)


RELU = layer("relu", "ReLU", "conv", "conv")
POOL = layer(
    "max", "Pooling", "conv", "max", ("pooling_param { pool: MAX kernel_size: 3 stride: 2 }")
)
SAME = 'convolution_param { num_output: 3 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } }'
AVERAGE = "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }"
BRANCH = layer("pool", "Pooling", "data", "pool", AVERAGE)

# name: (layers after the convolution, the blob that the loss reads, the joins: with kept memory,
# with reused memory)
NETS = {
    "scale": (norm() + scale(), "conv", "s", "s"),
    "scale and rectifier": (norm() + scale() + RELU, "conv", "sr", "sr"),
    **{
        f"scale and {kind}": (
            norm() + scale() + layer("act", kind, "conv", "conv", more),
            "conv",
            "sa",
            "sa",
        )
        for kind, more in (
            ("Clip", "clip_param { min: 0 max: 0.8 }"),
            ("GELU", ""),
            ("HardSwish", ""),
            ("SiLU", ""),
        )
    },
    "scale and HardSwish of another name": (
        norm() + scale() + layer("act", "HardSwish", "conv", "act"),
        "act",
        "s",
        "sa",
    ),
    "scale and rectifier of another name": (
        norm() + scale() + layer("relu", "ReLU", "conv", "r"),
        "r",
        "s",
        "sr",
    ),
    "scale, rectifier and dropout": (
        norm() + scale() + RELU + layer("drop", "Dropout", "conv", "conv"),
        "conv",
        "sr",
        "sr",
    ),
    "scale and HardSwish that is read twice": (
        norm()
        + scale()
        + layer("act", "HardSwish", "conv", "conv")
        + layer("sum", "Eltwise", "conv conv", "sum"),
        "sum",
        "sa",
        "sa",
    ),
    "sum and HardSwish": (
        BRANCH
        + norm()
        + scale()
        + layer("sum", "Eltwise", "pool conv", "conv")
        + layer("act", "HardSwish", "conv", "conv"),
        "conv",
        "se",
        "se",
    ),
    "scale and an activation that is not joined": (
        norm() + scale() + layer("act", "GELU", "conv", "conv", "gelu_param { approximate: TANH }"),
        "conv",
        "s",
        "s",
    ),
    "other names": (
        norm(top="b") + scale("b", "c") + layer("relu", "ReLU", "c", "c"),
        "c",
        "",
        "sr",
    ),
    "sum behind": (
        BRANCH + norm() + scale() + layer("sum", "Eltwise", "pool conv", "sum"),
        "sum",
        "s",
        "se",
    ),
    "sum before": (
        BRANCH
        + norm()
        + scale()
        + layer("sum", "Eltwise", "conv pool", "sum")
        + layer("relu", "ReLU", "sum", "sum"),
        "sum",
        "s",
        "ser",
    ),
    "sum under the first name": (
        BRANCH + norm() + scale() + layer("sum", "Eltwise", "pool conv", "conv") + RELU,
        "conv",
        "ser",
        "ser",
    ),
    "sum that is read twice": (
        BRANCH
        + norm()
        + scale()
        + layer("sum", "Eltwise", "pool conv", "conv")
        + RELU
        + layer("mean", "Pooling", "conv", "mean", AVERAGE)
        + layer("both", "Eltwise", "conv mean", "both"),
        "both",
        "serg",
        "serg",
    ),
    # backward, `near` and `side` compute between the second gradient of the sum and its use
    "sum whose two gradients wait for other layers": (
        BRANCH
        + norm()
        + scale()
        + layer("sum", "Eltwise", "pool conv", "conv")
        + RELU
        + layer("side", "Convolution", "data", "side", SAME)
        + layer("near", "Convolution", "side", "near", SAME)
        + layer("mean", "Pooling", "conv", "mean", AVERAGE)
        + layer("both", "Eltwise", "conv mean near", "both"),
        "both",
        "serg",
        "serg",
    ),
    "sum that one layer reads twice": (
        BRANCH
        + norm()
        + scale()
        + layer("sum", "Eltwise", "pool conv", "conv")
        + RELU
        + layer("both", "Eltwise", "conv conv", "both"),
        "both",
        "serg",
        "serg",
    ),
    "sum that is read three times": (
        BRANCH
        + norm()
        + scale()
        + layer("sum", "Eltwise", "pool conv", "conv")
        + RELU
        + layer("mean", "Pooling", "conv", "mean", AVERAGE)
        + layer("both", "Eltwise", "conv mean conv", "both"),
        "both",
        "ser",
        "ser",
    ),
    "sum with the input": (
        norm() + scale() + layer("sum", "Eltwise", "data conv", "sum"),
        "sum",
        "s",
        "se",
    ),
    "sum with a later blob": (
        norm() + scale() + BRANCH + layer("sum", "Eltwise", "conv pool", "sum"),
        "sum",
        "s",
        "s",
    ),
    "sum with itself": (
        norm() + scale() + layer("sum", "Eltwise", "conv conv", "sum"),
        "sum",
        "s",
        "s",
    ),
    "weighted sum": (
        BRANCH
        + norm()
        + scale()
        + layer("sum", "Eltwise", "pool conv", "sum", "eltwise_param { coeff: 1 coeff: 2 }"),
        "sum",
        "s",
        "s",
    ),
    "leaky rectifier": (
        norm()
        + scale()
        + layer("relu", "ReLU", "conv", "conv", "relu_param { negative_slope: 0.1 }"),
        "conv",
        "s",
        "s",
    ),
    "normalised blob read twice": (
        norm(top="b") + scale("b", "c") + layer("sum", "Eltwise", "b c", "sum"),
        "sum",
        "",
        "",
    ),
    "scaled blob read twice": (
        norm()
        + scale()
        + layer("relu", "ReLU", "conv", "r")
        + layer("sum", "Eltwise", "conv r", "sum"),
        "sum",
        "s",
        "s",
    ),
    "no bias": (norm() + scale(more=""), "conv", "", ""),
    "scale along all axes": (
        norm() + scale(more=("scale_param { bias_term: true num_axes: 3 }")),
        "conv",
        "",
        "",
    ),
    "normalised blob in the loss": (norm(more="loss_weight: 0.1") + scale(), "conv", "", ""),
    "scaled blob in the loss": (
        norm() + scale(more=BIASED + " loss_weight: 0.1") + RELU,
        "conv",
        "s",
        "s",
    ),
    "fixed statistics": (
        norm(more=("batch_norm_param { use_global_stats: true }")) + scale() + RELU,
        "conv",
        "sr",
        "sr",
    ),
    "maximum behind a rectifier": (RELU + POOL, "max", "pr", "pr"),
    "maximum behind a rectifier of its own name": (
        layer("relu", "ReLU", "conv", "r") + POOL.replace('"conv"', '"r"'),
        "max",
        "p",
        "p",
    ),
    "maximum before a rectifier": (POOL + layer("relu", "ReLU", "max", "max"), "max", "pr", "pr"),
    "maximum between rectifiers": (
        layer("relu2", "ReLU", "conv", "conv") + POOL + layer("relu", "ReLU", "max", "max"),
        "max",
        "pr",
        "pr",
    ),
    "maximum behind a rectifier that is read twice": (
        RELU
        + POOL
        + layer("sum", "Eltwise", "conv conv", "sum")
        + layer(
            "pool2",
            "Pooling",
            "sum",
            "other",
            ("pooling_param { pool: MAX kernel_size: 3 stride: 2 }"),
        )
        + layer("both", "Eltwise", "max other", "both"),
        "both",
        "r",
        "r",
    ),
    "maximum before dropout": (
        RELU + POOL + layer("drop", "Dropout", "max", "max"),
        "max",
        "pr",
        "pr",
    ),
    "maximum of a leaky rectifier": (
        layer("relu", "ReLU", "conv", "conv", "relu_param { negative_slope: 0.1 }") + POOL,
        "max",
        "",
        "",
    ),
    "average behind a rectifier": (RELU + POOL.replace("MAX", "AVE"), "max", "r", "r"),
    "norm, rectifier and maximum": (norm() + scale() + RELU + POOL, "max", "psr", "psr"),
    "nothing learned below": (norm("data", "b") + scale("b", "conv2"), "conv2", "", ""),
}


def backend(name: str, joins: bool) -> Backend:
    made = get_backend(name)
    made.joins = joins
    return made


def joined(net: Net) -> str:
    """The layers that are joined to others, as letters: s(cale), e(ltwise), a(ctivation),
    r(ectifier), p(ooling's rectifier), g(radients of a sum)."""
    layers = {node.layer.name: node.layer for node in net.nodes}
    found = "p" if "max" in layers and layers["max"].rectify else ""
    found += "s" if "scale" in layers and layers["scale"].norm is not None else ""
    found += "e" if "sum" in layers and layers["sum"].views else ""
    found += "a" if "act" in layers and layers["act"].views else ""
    relu = layers.get("relu")
    found += "r" if isinstance(relu, ReLU) and (relu.absorbed or relu.views) else ""
    return found + ("g" if any(value.apart for value in net.wiring.values) else "")


def trained(net: Net, step: int = 0) -> list[np.ndarray]:
    """The loss, all gradients and BatchNorm's additions to its statistics. Random offsets keep
    parameters from being exactly 0 or 1."""
    rng = np.random.default_rng(step)
    net.begin(step)
    for name, shape in net.input_shapes.items():
        net.feed(name, rng.standard_normal(shape) if len(shape) == 4 else rng.integers(0, 3, shape))
    for name, blobs in net.initial_blobs().items():
        net.load(
            name, [blob + rng.uniform(0.1, 0.3, blob.shape).astype(blob.dtype) for blob in blobs]
        )
    for stage in net.stages:
        net.forward(stage)
    gradients = [np.array(g) for stage in reversed(net.stages) for g in net.backward(stage)]
    return [np.array(net.scalars().get("loss", 0.0)), *gradients]


def check_alike(ones: list[np.ndarray], others: list[np.ndarray], dtype: str) -> None:
    error = {"float64": 1e-10, "float32": 2e-4}[dtype]
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=error, atol=error * max(1, np.abs(other).max()))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("memory", ["kept", "reused"])
@pytest.mark.parametrize("name", NETS)
def test_joined_layers_give_the_numbers_of_the_layers_one_by_one(tmp_path, name, memory, dtype):
    text, last, *expected = NETS[name]
    spec = spec_of(tmp_path, HEAD + text + TAIL.replace("LAST", last))
    apart = Net(spec, "TRAIN", ops=backend("numpy", False), seed=2, dtype=np.float64)
    together = Net(spec, "TRAIN", ops=backend("cpu", True), seed=2, dtype=dtype, memory=memory)
    assert joined(together) == expected[memory == "reused"]
    assert joined(apart).strip("r") == ""
    for step in (0, 1):
        check_alike(trained(together, step), trained(apart, step), dtype)


@pytest.mark.parametrize("name", NETS)
def test_every_blob_of_a_net_that_keeps_its_memory_is_readable_by_name(tmp_path, name):
    text, last, *_ = NETS[name]
    spec = spec_of(tmp_path, HEAD + text + TAIL.replace("LAST", last))
    nets = [
        Net(spec, "TEST", ops=backend("cpu", joins), seed=2, dtype=np.float64)
        for joins in (False, True)
    ]
    rng = np.random.default_rng(0)
    inputs = {"data": rng.standard_normal((4, 3, 5, 5)), "label": np.array([0, 1, 2, 0])}
    blobs = {layer: [b + 0.25 for b in of] for layer, of in nets[0].initial_blobs().items()}
    for net in nets:
        net.run(inputs, blobs)
    for top in {top for node in nets[0].nodes for top in node.layer.proto.top}:
        np.testing.assert_allclose(
            nets[1].blob(top), nets[0].blob(top), rtol=1e-10, atol=1e-12, err_msg=top
        )


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_any_net_computes_the_same_numbers_joined_or_not(tmp_path_factory, text):
    spec = spec_of(tmp_path_factory.mktemp("net"), text)
    apart = Net(spec, "TRAIN", ops=backend("numpy", False), batch=2, dtype=np.float64)
    for memory in ("kept", "reused"):
        together = Net(
            spec, "TRAIN", ops=backend("numpy", True), batch=2, dtype=np.float64, memory=memory
        )
        for step in (0, 1):
            check_alike(trained(together, step), trained(apart, step), "float64")


def test_all_of_resnet_is_joined():
    net = Net(
        load_net("resnet20"),
        "TRAIN",
        ops=get_backend("cpu"),
        batch=4,
        input_shape=(3, 32, 32),
        memory="reused",
    )
    kinds = [node.layer for node in net.nodes]
    assert all(one.norm is not None for one in kinds if one.proto.type == "Scale")
    assert all(one.absorbed or one.views for one in kinds if one.proto.type == "ReLU")
    assert all(one.views for one in kinds if one.proto.type in ("BatchNorm", "Eltwise"))


@pytest.mark.parametrize("part", ["conv", "fc"])
def test_a_part_of_a_net_is_joined_too_and_may_get_fewer_rows(part):
    def gradients(joins: bool) -> list[np.ndarray]:
        net = Net(
            load_net("resnet20"),
            "TRAIN",
            ops=backend("cpu", joins),
            part=part,
            batch=6,
            input_shape=(3, 32, 32),
            dtype=np.float64,
            memory="reused",
        )
        found = []
        for rows in ((0, 6), (1, 4)):
            net.begin(0, rows)
            rng = np.random.default_rng(1)
            for name, shape in net.input_shapes.items():
                net.feed(
                    name,
                    rng.standard_normal(shape) if len(shape) > 1 else rng.integers(0, 3, shape),
                )
            for name, blobs in net.initial_blobs().items():
                net.load(name, blobs)
            for stage in net.stages:
                net.forward(stage)
            if part == "conv":
                for name in net.boundary_grads:
                    net.set_grad(name, rng.standard_normal(net.shape(name)))
            found += [np.array(g) for stage in reversed(net.stages) for g in net.backward(stage)]
        return found

    check_alike(gradients(True), gradients(False), "float64")


def test_a_blob_whose_memory_is_reused_is_still_refused_by_name(tmp_path):
    text, last, *_ = NETS["other names"]
    spec = spec_of(tmp_path, HEAD + text + TAIL.replace("LAST", last))
    net = Net(spec, "TRAIN", ops=get_backend("cpu"), memory="reused")
    trained(net)
    with pytest.raises(NetError, match="blob 'b': its memory is reused"):
        net.blob("b")
