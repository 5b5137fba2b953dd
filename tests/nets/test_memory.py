"""The memory plan: shared memory changes no number, and every array that a layer keeps is
planned."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nets import Net, NetError, load_net
from nets.graph.net_memory import MemoryPlan
from ops import get_backend
from tests.nets.support import spec_of

SMALL = {
    "lenet": (3, (1, 28, 28)),
    "cifar10_quick": (2, (3, 32, 32)),
    "cifar10_full": (2, (3, 32, 32)),
    "resnet20": (2, (3, 32, 32)),
    "nin": (1, (3, 224, 224)),
    "googlenet": (1, (3, 224, 224)),
    "resnet50": (1, (3, 224, 224)),
}


def one_pass(net: Net, step: int) -> tuple[dict[str, float], list[np.ndarray]]:
    """Scores and parameter gradients of a training pass on noise."""
    rng = np.random.default_rng(step)
    blobs = net.initial_blobs()
    net.begin(step)
    for name, shape in net.input_shapes.items():
        image = len(shape) == 4
        net.feed(
            name,
            rng.standard_normal(shape, dtype=np.float32) if image else rng.integers(0, 3, shape),
        )
    for stage in net.stages:
        if stage.layer is not None:
            net.load(stage.layer, blobs[stage.layer])
        net.forward(stage)
    gradients = [np.array(g) for stage in reversed(net.stages) for g in net.backward(stage)]
    return net.scalars(), gradients


def check_same(kept: Net, reused: Net) -> None:
    for step in (0, 1):
        scores, gradients = one_pass(kept, step)
        found, others = one_pass(reused, step)
        assert found == scores
        for ours, theirs in zip(others, gradients, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def overlaps(plan: MemoryPlan) -> list[tuple[str, str]]:
    """Pairs of arrays that are live at the same time and share a byte."""
    own = [r for r in (*plan.regions, *plan.sums.values()) if r.inside is None]
    return [
        (a.key, b.key)
        for at, a in enumerate(own)
        for b in own[:at]
        if a.start <= b.end
        and b.start <= a.end
        and a.offset < b.offset + b.size
        and b.offset < a.offset + a.size
    ]


@pytest.mark.few("[resnet20]", "[cifar10_quick]", "[lenet]", "[cifar10_full]")
@pytest.mark.parametrize("name", SMALL)
def test_a_net_whose_arrays_share_memory_computes_the_same_numbers(name):
    batch, shape = SMALL[name]
    made = {
        memory: Net(
            load_net(name),
            "TRAIN",
            ops=get_backend("numpy"),
            batch=batch,
            input_shape=shape,
            seed=3,
            memory=memory,
        )
        for memory in ("kept", "reused")
    }
    check_same(made["kept"], made["reused"])


@pytest.mark.parametrize("name", SMALL)
def test_no_two_arrays_that_live_together_share_a_byte_and_sharing_saves_memory(name):
    batch, shape = SMALL[name]
    net = Net(
        load_net(name),
        "TRAIN",
        ops=get_backend("numpy"),
        batch=batch,
        input_shape=shape,
        memory="reused",
    )
    plan = net.memory_plan
    assert overlaps(plan) == []
    assert plan.size < 0.9 * plan.unshared


@pytest.mark.few(
    "[nin]", "[resnet20]", "[cifar10_quick]", "[lenet]", "[cifar10_full]", "[googlenet]"
)
@pytest.mark.parametrize("name", SMALL)
def test_every_large_array_that_a_layer_keeps_is_in_the_plan(name):
    batch, shape = SMALL[name]
    net = Net(
        load_net(name),
        "TRAIN",
        ops=get_backend("numpy"),
        batch=batch,
        input_shape=shape,
        memory="reused",
    )
    one_pass(net, 0)
    planned = {(region.node, region.key) for region in net.memory_plan.regions}
    for node in net.nodes:
        for key, array in node.layer._buffers.items():
            assert (node.index, key) in planned or array.nbytes <= 4096 * 2, (node.layer, key)


def test_a_blob_whose_memory_is_reused_is_refused_by_name():
    net = Net(
        load_net("lenet"),
        "TRAIN",
        ops=get_backend("numpy"),
        batch=2,
        input_shape=(1, 28, 28),
        memory="reused",
    )
    one_pass(net, 0)
    assert net.blob("loss") > 0
    with pytest.raises(NetError, match="blob 'conv1': its memory is reused"):
        net.blob("conv1")


def test_a_pass_over_fewer_rows_is_planned_again():
    made = [
        Net(
            load_net("lenet"),
            "TRAIN",
            ops=get_backend("numpy"),
            batch=6,
            input_shape=(1, 28, 28),
            memory=memory,
        )
        for memory in ("kept", "reused")
    ]
    for rows in ((0, 6), (2, 5), (0, 6)):
        losses = []
        for net in made:
            net.begin(0, rows)
            rng = np.random.default_rng(0)
            for name, shape in net.input_shapes.items():
                net.feed(
                    name, rng.random(shape, np.float32) if len(shape) == 4 else np.zeros(shape)
                )
            for stage in net.stages:
                if stage.layer is not None:
                    net.load(stage.layer, net.initial_blobs()[stage.layer])
                net.forward(stage)
            for stage in reversed(net.stages):
                net.backward(stage)
            losses.append(net.scalars()["loss"])
        assert losses[0] == losses[1]


KINDS = {
    "conv": 'type: "Convolution" convolution_param {{ num_output: {outputs} kernel_size: 3 pad: 1 '
    'weight_filler {{ type: "xavier" }} }}',
    "pool": 'type: "Pooling" pooling_param {{ pool: MAX kernel_size: 3 stride: 1 pad: 1 }}',
    "lrn": 'type: "LRN" lrn_param {{ local_size: 3 }}',
    "norm": 'type: "BatchNorm"',
    "scale": 'type: "Scale" scale_param {{ bias_term: true }}',
    "drop": 'type: "Dropout" dropout_param {{ dropout_ratio: 0.4 }}',
    "relu": 'type: "ReLU"',
    "sigmoid": 'type: "Sigmoid"',
    "gelu": 'type: "GELU"',
    "hard": 'type: "HardSigmoid"',
    "groups": 'type: "GroupNorm" group_norm_param {{ groups: 1 }}',
    "places": 'type: "LayerNorm"',
    "depth": 'type: "StochasticDepth" dropout_param {{ dropout_ratio: 0.4 }}',
    "depthwise": 'type: "DepthwiseConvolution" convolution_param {{ num_output: {outputs} '
    'kernel_size: 3 pad: 1 weight_filler {{ type: "xavier" }} }}',
    "adaptive": 'type: "AdaptivePooling" adaptive_pooling_param {{ output_size: 5 }}',
    "turned": 'type: "Permute" permute_param {{ order: [0, 1, 3, 2] }}',
    "bordered": 'type: "Pad" pad_param {{ top: 1 right: 1 }}',
}

IN_PLACE = ("relu", "drop", "depth", "gelu")
KEEPING = [kind for kind in KINDS if kind != "bordered"]  # the size of an image, so that sums fit


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """A net of up to twelve layers: chains, branches that join by Concat or Eltwise, layers in
    place."""
    layers = []
    blobs = [("data", 3)]
    for name, shape in (("data", (2, 3, 5, 5)), ("label", (2,))):
        sizes = " ".join(f"dim: {size}" for size in shape)
        layers.append(
            f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ '
            f"shape {{ {sizes} }} }} }}"
        )

    def add(body: str, bottoms: list[str], top: str) -> None:
        named = " ".join(f'bottom: "{name}"' for name in bottoms)
        layers.append(f'layer {{ name: "l{len(layers)}" {body} {named} top: "{top}" }}')

    for at in range(draw(st.integers(2, 12))):
        kind = draw(
            st.sampled_from([*KEEPING, "concat", "sum", "max", "joined", "in place", "in place"])
        )
        source, channels = draw(st.sampled_from(blobs[-3:]))
        top = f"b{at}"
        if kind == "in place":
            if source != "data":
                add(
                    draw(st.sampled_from([KINDS[kind] for kind in IN_PLACE])).format(),
                    [source],
                    source,
                )
            continue
        if kind == "concat":
            other, more = draw(st.sampled_from(blobs[-3:]))
            add('type: "Concat"', [source, other], top)
            channels += more
        elif kind in ("sum", "max"):
            others = [name for name, count in blobs if count == channels]
            pair = draw(st.permutations([source, others[0]]))
            add(f'type: "Eltwise" eltwise_param {{ operation: {kind.upper()} }}', pair, top)
        elif kind == "joined":
            between = draw(st.sampled_from([top, f"{top}n"]))
            add(KINDS["norm"], [source], between)
            add(KINDS["scale"].format(), [between], top)
        else:
            outputs = draw(st.sampled_from([2, 4])) if kind == "conv" else channels
            add(KINDS[kind].format(outputs=outputs), [source], top)
            channels = outputs
        blobs.append((top, channels))
    for at, (name, _) in enumerate(blobs[1:][-2:]):
        add(
            (
                'type: "InnerProduct" inner_product_param { num_output: 3 weight_filler { type: '
                '"xavier" } }'
            ),
            [name],
            f"f{at}",
        )
        add('type: "SoftmaxWithLoss"', [f"f{at}", "label"], f"loss{at}")
    return "\n".join(layers)


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_any_net_computes_the_same_numbers_with_shared_memory(tmp_path_factory, text):
    spec = spec_of(tmp_path_factory.mktemp("net"), text)
    made = [
        Net(spec, "TRAIN", ops=get_backend("numpy"), batch=2, memory=memory)
        for memory in ("kept", "reused")
    ]
    check_same(*made)
    assert overlaps(made[1].memory_plan) == []


SILENCED = """
layer { name: "data" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 2 dim: 4 dim: 5 dim: 5 } shape { dim: 2 } } }
layer { name: "slice" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { slice_point: 1 } }
layer { name: "silence" type: "Silence" bottom: "b" }
layer { name: "ip" type: "InnerProduct" bottom: "a" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def test_a_layer_without_tops_takes_no_memory_and_changes_no_number(tmp_path):
    spec = spec_of(tmp_path, SILENCED)
    check_same(
        *(
            Net(spec, "TRAIN", ops=get_backend("numpy"), batch=2, memory=memory)
            for memory in ("kept", "reused")
        )
    )


def test_a_layer_without_bottoms_learns_with_shared_memory(tmp_path):
    text = """
layer { name: "data" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 4 dim: 3 dim: 6 dim: 5 } shape { dim: 4 } } }
layer { name: "factors" type: "Parameter" top: "factors"
  parameter_param { shape { dim: 3 } } }
layer { name: "scaled" type: "Scale" bottom: "data" bottom: "factors" top: "scaled" }
layer { name: "ip" type: "InnerProduct" bottom: "scaled" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
    spec = spec_of(tmp_path, text)
    made = [
        Net(spec, "TRAIN", ops=get_backend("numpy"), memory=memory, seed=1)
        for memory in ("kept", "reused")
    ]
    check_same(*made)


CHAIN = """
layer {{ name: "data" type: "Input" top: "data" top: "label"
  input_param {{ shape {{ dim: 2 dim: 4 dim: 30 dim: 40 }} shape {{ dim: 2 dim: 3 }} }} }}
layer {{ name: "first" type: "Convolution" bottom: "data" top: "first"
  convolution_param {{ num_output: 4 kernel_size: 3 pad: 1 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "tried" {body} bottom: "first" top: "tried" }}
layer {{ name: "ip" type: "InnerProduct" bottom: "tried" top: "ip"
  inner_product_param {{ num_output: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss"
  loss_param {{ label_smoothing: 0.1 }} }}
"""


@pytest.mark.parametrize("kind", [*KINDS, "Swish", "SiLU", "HardSwish"])
def test_every_large_array_of_a_layer_type_is_in_the_plan(tmp_path, kind):
    body = KINDS.get(kind, f'type: "{kind}"').format(outputs=4)
    net = Net(
        spec_of(tmp_path, CHAIN.format(body=body)),
        "TRAIN",
        ops=get_backend("numpy"),
        batch=2,
        memory="reused",
    )
    net.begin(0)
    rng = np.random.default_rng(0)
    fed = {name: rng.random(shape, np.float32) for name, shape in net.input_shapes.items()}
    fed["label"] /= fed["label"].sum(axis=1, keepdims=True)
    net.run(fed, net.initial_blobs())
    for stage in reversed(net.stages):
        net.backward(stage)
    planned = {(region.node, region.key) for region in net.memory_plan.regions}
    for node in net.nodes:
        for key, array in node.layer._buffers.items():
            assert (node.index, key) in planned or array.nbytes <= 64, (node.layer, key)


def test_vgg_16_at_128_images_takes_less_than_20_gb_of_a_gpu() -> None:
    net = Net(
        load_net("vgg16"),
        "TRAIN",
        ops=get_backend("cupy plan"),
        batch=128,
        input_shape=(3, 256, 256),
        memory="reused",
    )
    parameters = sum(math.prod(p.shape) for params in net.params.values() for p in params)
    beside = 3 * 4 * parameters  # parameters, gradients, momentum
    # the memory for windows has a limit, whatever the batch
    assert net.scratch <= 1e9
    assert net.memory_plan.size + net.scratch + beside < 20e9
