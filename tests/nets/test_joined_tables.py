"""A table that is joined to the recurrent layer above it: the numbers equal those of the two layers
one by one."""

from __future__ import annotations

import numpy as np
import pytest

from nets import Net, NetError
from ops import Backend, get_backend
from tests.nets.support import spec_of

STEPS = 4
STREAMS = 3
ROWS = 5  # of the table: fewer than half of the steps of all streams


def net_text(
    recurrent: str = "LSTM",
    *,
    rows: int = ROWS,
    embed: str = "bias_term: false",
    more: str = "",
    bottoms: str = 'bottom: "embed" bottom: "cont"',
    numbers: str = "dim: 4 dim: 3",
    reads: str = "state",
) -> str:
    """A table, a recurrent layer and a loss over all steps."""
    return f"""
layer {{ name: "in" type: "Input" top: "data" top: "cont" top: "target"
        input_param {{ shape {{ {numbers} }} shape {{ dim: 4 dim: 3 }} shape {{ dim: 4 dim: 3 }} }} }}
layer {{ name: "embed" type: "Embed" bottom: "data" top: "embed" {more}
        embed_param {{ num_output: 6 input_dim: {rows} {embed}
                       weight_filler {{ type: "uniform" min: -1 max: 1 }}
                       bias_filler {{ type: "uniform" min: -1 max: 1 }} }} }}
layer {{ name: "state" type: "{recurrent}" {bottoms} top: "state"
        recurrent_param {{ num_output: 7 weight_filler {{ type: "uniform" min: -1 max: 1 }} }} }}
layer {{ name: "next" type: "InnerProduct" bottom: "{reads}" top: "next"
        inner_product_param {{ num_output: 5 axis: 2 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "next" bottom: "target" top: "loss"
        softmax_param {{ axis: 2 }} }}
"""


FROZEN = "param { lr_mult: 0 }"
# name: (the net, whether the table is joined)
NETS = {
    "LSTM": (net_text(), True),
    "RNN": (net_text("RNN"), True),
    "a bias": (net_text(embed="bias_term: true"), True),
    "a bias of an RNN": (net_text("RNN", embed="bias_term: true"), True),
    "a table of one row": (net_text(rows=1), True),
    "a table of more rows than products pay for": (net_text(rows=50, embed="bias_term: true"), True),
    "a large table of an RNN": (net_text("RNN", rows=50), True),
    "a table that does not learn": (net_text(more=FROZEN), True),
    "a table that is read twice": (
        net_text(bottoms='bottom: "embed" bottom: "cont"').replace(
            'layer { name: "next"',
            'layer { name: "both" type: "Concat" bottom: "state" bottom: "embed" top: "both" '
            'concat_param { axis: 2 } }\nlayer { name: "next"',
        ).replace('bottom: "state" top: "next"', 'bottom: "both" top: "next"'),
        False,
    ),
    "a table with a loss weight": (net_text(more="loss_weight: 0.1"), False),
    "several numbers a step": (net_text(numbers="dim: 4 dim: 3 dim: 2"), False),
}  # fmt: skip


def backend(name: str, joins: bool) -> Backend:
    made = get_backend(name)
    made.joins = joins
    return made


def is_joined(net: Net) -> bool:
    return any(getattr(node.layer, "handed_on", False) for node in net.nodes)


def trained(net: Net, passes: int = 2) -> list[np.ndarray]:
    """The losses and gradients of some passes. Each starts from the states of the one before."""
    rng = np.random.default_rng(0)
    blobs = net.initial_blobs()
    found = []
    for step in range(passes):
        net.begin(step)
        for name, shape in net.input_shapes.items():
            largest = 2 if name == "cont" else blobs["embed"][0].shape[0]
            net.feed(name, rng.integers(0, min(largest, 5), shape))
        for name, arrays in blobs.items():
            net.load(name, arrays)
        for stage in net.stages:
            net.forward(stage)
        gradients = [g for stage in reversed(net.stages) for g in net.backward(stage)]
        found += [np.array(net.scalars()["loss"]), *gradients]
    return found


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NETS)
def test_a_joined_table_gives_the_numbers_of_the_two_layers(tmp_path, name, dtype) -> None:
    text, joined = NETS[name]
    spec = spec_of(tmp_path, text)
    one, other = (
        Net(spec, "TRAIN", ops=backend("cpu", joins), memory="reused", dtype=dtype)
        for joins in (True, False)
    )
    assert (is_joined(one), is_joined(other)) == (joined, False)
    error = {"float64": 1e-12, "float32": 1e-5}[dtype]
    for a, b in zip(trained(one), trained(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=error, atol=error * max(1, np.abs(b).max()))


def test_a_table_that_can_be_read_by_its_name_is_not_joined(tmp_path) -> None:
    net = Net(spec_of(tmp_path, net_text()), "TRAIN", ops=backend("cpu", True), memory="kept")
    assert not is_joined(net)
    trained(net)
    assert net.blob("embed").shape == (STEPS, STREAMS, 6)


def test_gradients_of_a_joined_table_are_new_arrays_in_every_pass(tmp_path) -> None:
    net = Net(spec_of(tmp_path, net_text()), "TRAIN", ops=backend("cpu", True), memory="reused")
    found = trained(net, passes=1)
    kept = [array.copy() for array in found]
    trained(net)
    for array, copy in zip(found, kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_number_that_is_no_row_of_a_joined_table_is_reported_with_the_table(tmp_path) -> None:
    net = Net(spec_of(tmp_path, net_text()), "TRAIN", ops=backend("cpu", True), memory="reused")
    net.begin(0)
    for name, shape in net.input_shapes.items():
        net.feed(name, np.full(shape, 5 if name == "data" else 0))
    for name, arrays in net.initial_blobs().items():
        net.load(name, arrays)
    with pytest.raises(NetError, match=r"'embed'.*an index is 5.*from 0 to 4"):
        for stage in net.stages:
            net.forward(stage)
