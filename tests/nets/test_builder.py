"""Nets written in Python: they equal the nets of prototxt files, and mistakes are reported with the
line of the script."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roles
import runtime
from examples.net_in_python import lenet
from nets import Net, NetBuilder, PrototxtError, load_net
from nets.schema import caffe_pb2 as caffe
from nets.schema.layer_types import ALL_TYPES
from ops import get_backend
from runtime.errors import ConfigError

FILE = Path(__file__).name


def alexnet() -> NetBuilder:
    """BVLC's AlexNet."""
    net = NetBuilder("AlexNet")
    learn: dict[str, Any] = {
        "param": [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 2, "decay_mult": 0}]
    }
    mean = {"crop_size": 227, "mean_value": [104, 117, 123]}
    for phase, batch, more in (("TRAIN", 256, {"mirror": True}), ("TEST", 50, {})):
        data, label = net.Data(
            "data",
            tops=["data", "label"],
            include={"phase": phase},
            batch_size=batch,
            transform_param=mean | more,
        )

    def filled(std: float, bias: float) -> dict[str, Any]:
        fillers: dict[str, Any] = {"weight_filler": {"type": "gaussian", "std": std}}
        return (
            fillers | ({"bias_filler": {"type": "constant", "value": bias}} if bias else {}) | learn
        )

    x = data
    sizes = [
        (96, 11, 4, 0, 1, 0.0),
        (256, 5, 1, 2, 2, 0.1),
        (384, 3, 1, 1, 1, 0.0),
        (384, 3, 1, 1, 2, 0.1),
    ]
    for n, (outputs, kernel, stride, pad, group, bias) in enumerate(
        [*sizes, (256, 3, 1, 1, 2, 0.1)], 1
    ):
        said = {"stride": (stride, 1), "pad": (pad, 0), "group": (group, 1)}
        odd = {key: value for key, (value, usual) in said.items() if value != usual}
        x = net.Convolution(
            f"conv{n}", x, num_output=outputs, kernel_size=kernel, **odd, **filled(0.01, bias)
        )
        x = net.ReLU(f"relu{n}", x, in_place=True)
        if n <= 2:
            x = net.LRN(f"norm{n}", x, local_size=5, alpha=0.0001, beta=0.75)
        if n in (1, 2, 5):
            x = net.Pooling(f"pool{n}", x, pool="MAX", kernel_size=3, stride=2)
    for n in (6, 7):
        x = net.InnerProduct(f"fc{n}", x, num_output=4096, **filled(0.005, 0.1))
        x = net.ReLU(f"relu{n}", x, in_place=True)
        x = net.Dropout(f"drop{n}", x, in_place=True, dropout_ratio=0.5)
    x = net.InnerProduct("fc8", x, num_output=1000, **filled(0.01, 0.0))
    net.Accuracy("accuracy", x, label, include={"phase": "TEST"})
    net.Accuracy("top5", x, label, top_k=5, include={"phase": "TEST"})
    net.SoftmaxWithLoss("loss", x, label)
    return net


def line_here(back: int = 0) -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno - back


@pytest.mark.parametrize(("build", "name"), [(lenet, "lenet"), (alexnet, "alexnet")])
def test_a_net_written_in_python_is_the_zoos_field_for_field(
    build: Callable[[], NetBuilder], name: str
) -> None:
    ours = build()
    zoo = load_net(name)
    assert ours.proto() == zoo.proto
    assert load_net(str(ours)).proto == zoo.proto
    assert len(ours.spec().for_phase("TEST").layers) == len(zoo.for_phase("TEST").layers)


def test_it_computes_the_same_as_the_net_of_the_zoo() -> None:
    made = [
        Net(spec, "TEST", ops=get_backend("numpy"), batch=3, input_shape=(1, 28, 28), seed=4)
        for spec in (lenet().spec(), load_net("lenet"))
    ]
    x = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    losses = [
        net.run({"data": x, "label": np.zeros(3, np.float32)}, net.initial_blobs()) for net in made
    ]
    assert losses[0] == losses[1] != {}


def test_its_prototxt_is_read_by_caffes_own_schema() -> None:
    from google.protobuf import text_format

    assert text_format.Parse(str(lenet()), caffe.NetParameter()) == load_net("lenet").proto


def test_every_layer_type_of_caffe_and_of_ours_is_a_method() -> None:
    net = NetBuilder()
    for kind in ALL_TYPES:
        getattr(net, kind)(f"a {kind}")
    assert [layer.type for layer in net.proto().layer] == list(ALL_TYPES)


def test_squeeze_and_excitation_multiplies_each_channel_by_a_gate_of_the_means() -> None:
    net = NetBuilder("gated")
    data = net.Input("data", shape={"dim": [2, 6, 5, 4]})
    net.squeeze_excitation(
        "se", data, channels=6, squeezed=3, gate="HardSigmoid", weight_filler={"type": "xavier"}
    )
    made = Net(net.spec(), "TEST", ops=get_backend("numpy"), seed=4)
    x = np.random.default_rng(0).standard_normal((2, 6, 5, 4)).astype(np.float32)
    blobs = made.initial_blobs()
    made.run({"data": x}, blobs)
    inner, outer = (
        blobs[f"se/{name}"][0].reshape(-1, width) for name, width in (("squeeze", 6), ("excite", 3))
    )
    raw = np.maximum(x.mean((2, 3)) @ inner.T, 0) @ outer.T
    gates = np.clip((raw + 3) / 6, 0, 1)
    np.testing.assert_allclose(made.blob("se"), x * gates[:, :, None, None], rtol=1e-5)


def test_the_pixels_of_pad_are_keywords_like_the_options_of_other_types() -> None:
    net = NetBuilder()
    net.Pad("border", "data", top=1, bottom=2, left=3, right=4, value=0.5)
    (layer,) = net.proto().layer
    pad = layer.pad_param
    assert (pad.top, pad.bottom, pad.left, pad.right, pad.value) == (1, 2, 3, 4, 0.5)
    assert (list(layer.bottom), list(layer.top)) == (["data"], ["border"])


def test_a_mistake_in_squeeze_and_excitation_has_the_line_of_the_script() -> None:
    net = NetBuilder()
    with pytest.raises(
        PrototxtError, match=r"test_builder.py:\d+: layer 'se/squeeze'.*kernel_sise"
    ):
        net.squeeze_excitation("se", "data", channels=6, squeezed=3, kernel_sise=3)


def test_a_layer_of_another_package_is_added_by_its_type() -> None:
    net = NetBuilder()
    top = net.layer("Softsign", "soft", "data", python_param={"param_str": '{"steepness": 2.0}'})
    assert top == "soft"
    assert net.proto().layer[0].python_param.param_str == '{"steepness": 2.0}'


MISTAKES: dict[str, tuple[Callable[[NetBuilder], object], str]] = {
    "field": (
        lambda net: net.Convolution("c", "data", kernel_sise=5),
        (
            "key 'kernel_sise': a layer of type 'Convolution' has no such field (did you mean "
            "'kernel_size'?)"
        ),
    ),
    "other layer's field": (
        lambda net: net.ReLU("c", "data", num_output=5),
        "key 'num_output': a layer of type 'ReLU' has no such field",
    ),
    "enum": (
        lambda net: net.Pooling("c", "data", pool="MIX"),
        "key 'pool': found 'MIX', expected one of MAX, AVE, STOCHASTIC (did you mean 'MAX'?)",
    ),
    "truth as number": (
        lambda net: net.Pooling("c", "data", kernel_size=True),
        "key 'kernel_size': found True, expected an integer >= 0",
    ),
    "number as truth": (
        lambda net: net.Convolution("c", "data", bias_term=1),
        "key 'bias_term': found 1, expected",
    ),
    "too large": (
        lambda net: net.Convolution("c", "data", num_output=2**40),
        "key 'num_output': found 1099511627776",
    ),
    "list for one": (
        lambda net: net.Convolution("c", "data", num_output=[1, 2]),
        "key 'num_output': found [1, 2]",
    ),
    "no dict": (
        lambda net: net.Convolution("c", "data", weight_filler="xavier"),
        "key 'weight_filler': found 'xavier', expected a dict of the fields of FillerParameter",
    ),
    "inner field": (
        lambda net: net.Convolution("c", "data", weight_filler={"tipe": "xavier"}),
        "key 'weight_filler.tipe': unknown key 'tipe' in FillerParameter (did you mean 'type'?)",
    ),
    "bottom": (lambda net: net.ReLU("c", 3), "key 'bottom': found 3, expected the name of a blob"),
    "several tops as one bottom": (
        lambda net: net.ReLU("c", ("a", "b")),
        "key 'bottom': found ('a', 'b')",
    ),
    "in place of nothing": (
        lambda net: net.ReLU("c", in_place=True),
        ("in_place: found 0 bottoms, expected one"),
    ),
    "top as field": (
        lambda net: net.ReLU("c", "data", top="x"),
        ("key 'top': is set by the arguments before"),
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_reported_with_the_line_of_the_script(case: str) -> None:
    call, words = MISTAKES[case]
    with pytest.raises(PrototxtError) as raised:
        call(NetBuilder())
    first = raised.value.problems[0]
    assert first.split(": ", 1)[0] == f"{FILE}:{_line_of(call)}"
    assert words in first


def _line_of(call: Callable[..., object]) -> int:
    return call.__code__.co_firstlineno


def test_all_mistakes_of_a_call_are_reported_at_once_and_nothing_is_added() -> None:
    net = NetBuilder()
    with pytest.raises(PrototxtError) as raised:
        net.Pooling("c", "data", pool="MIX", kernel_size="three")
    assert len(raised.value.problems) == 2
    assert len(net.proto().layer) == 0


def test_an_unknown_type_is_reported_with_the_nearest() -> None:
    with pytest.raises(
        AttributeError,
        match=(r"'Convolutoin' is not a layer type .did " r"you mean 'Convolution'"),
    ):
        NetBuilder().Convolutoin("c", "data")


def test_a_mistake_found_while_planning_the_net_names_the_line_of_the_script() -> None:
    net = NetBuilder("short")
    data, label = net.Data("d", tops=("data", "label"), batch_size=4)
    x = net.InnerProduct("ip", "gone", num_output=10)
    line = line_here(back=1)
    net.SoftmaxWithLoss("loss", x, label)
    with pytest.raises(ConfigError) as raised:
        roles.training({"net": net})
    place = f"training(): train.net: {FILE}:{line}: layer 'ip': key 'bottom'"
    assert raised.value.problems == [f"{place}: found 'gone', but no layer above has such a top"]
    assert data == "data"


def test_a_net_that_cannot_be_read_is_refused_before_anything_is_planned() -> None:
    line = line_here() + 3
    found = rf"training\(\): train.net: {FILE}:{line}: the net has no layer"
    with pytest.raises(ConfigError, match=found):
        roles.training({"net": NetBuilder("empty")})


@pytest.mark.parametrize(
    "processes", ["here", pytest.param("one-per-actor", marks=pytest.mark.slow)]
)
def test_it_trains_to_the_numbers_of_the_zoos(tmp_path: Path, processes: str) -> None:
    said: dict[str, Any] = {
        "max_iter": 3,
        "precision": "exact",
        "strategy": {"preset": "sync", "workers": 2},
    }
    results = []
    for net in (lenet(), "lenet"):
        topology = roles.training(said | {"net": net})
        results.append(runtime.run(topology, directory=tmp_path, processes=processes)["accuracy"])
    assert results[0] == results[1]
