"""The scores of rows of outputs: the same as the layers of a test net compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import Net, NetError
from ops import get_backend
from roles.commands.judging import Counts, Judge, Rows, averaged
from tests.nets.support import spec_of

NET = """
layer {{ name: "in" type: "Input" top: "data" top: "label"
  input_param {{ shape {{ dim: 6 dim: 4 {more} }} shape {{ dim: 6 {more} }} }} }}
layer {{ name: "scale" type: "Scale" bottom: "data" top: "ip" scale_param {{ bias_term: true
  filler {{ type: "gaussian" std: 1 }} }} }}
layer {{ name: "one" type: "Accuracy" bottom: "ip" bottom: "label" top: "top1"
  accuracy_param {{ {ignore} }} }}
layer {{ name: "two" type: "Accuracy" bottom: "ip" bottom: "label" top: "top2"
  accuracy_param {{ top_k: 2 {ignore} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "cost"
  loss_param {{ {ignore} }} }}
"""


def ran(folder: Path, text: str, seed: int = 1) -> tuple[Net, Judge, dict[str, float]]:
    """A net with the arrays of one pass, its judge, and the scores that its layers computed."""
    spec = spec_of(folder, text)
    net = Net(spec, "TEST", ops=get_backend("numpy"), memory="kept", seed=seed)
    random = np.random.default_rng(2)
    shape = net.input_shapes["data"]
    label = random.integers(0, 4, (shape[0], *shape[2:])).astype("f4")
    arrays = {"data": random.normal(0, 2, shape).astype("f4"), "label": label}
    return net, Judge(net.spec), net.run(arrays, net.initial_blobs())


@pytest.mark.parametrize("more", ["", "dim: 3 dim: 2"])
@pytest.mark.parametrize("ignore", ["", "ignore_label: 1"])
def test_the_scores_of_a_net_s_own_rows_are_those_of_its_layers(
    tmp_path: Path, more: str, ignore: str
) -> None:
    net, judge, scores = ran(tmp_path, NET.format(more=more, ignore=ignore))
    rows = judge.rows(net, ())
    counts = Counts(judge)
    for part in (slice(0, 4), slice(4, None)):
        counts.add(Rows(rows.outputs[part], rows.labels[part]))
    assert counts.scores == pytest.approx({name: scores[name] for name in ("top1", "top2", "cost")})
    assert (judge.ending, judge.width(net)) == ("Softmax", 4)
    assert np.abs(rows.outputs.sum(axis=1) - 1).max() < 1e-6


def test_outputs_without_a_softmax_stay_as_they_are(tmp_path: Path) -> None:
    text = NET.format(more="", ignore="")
    text = text.replace("SoftmaxWithLoss", "HingeLoss").replace("loss_param {  }", "")
    net, judge, scores = ran(tmp_path, text)
    rows = judge.rows(net, ())
    assert (rows.outputs == np.asarray(net.blob("ip"))).all()
    counts = Counts(judge)
    counts.add(rows)
    assert counts.scores == pytest.approx({name: scores[name] for name in ("top1", "top2")})
    assert judge.ending == ""


def test_a_net_for_deployment_is_judged_by_the_labels_of_the_data(tmp_path: Path) -> None:
    text = """
        layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 6 dim: 4 } } }
        layer { name: "p" type: "Softmax" bottom: "data" top: "p" }"""
    net = Net(spec_of(tmp_path, text), "TEST", ops=get_backend("numpy"), memory="kept")
    net.run({"data": np.eye(6, 4, dtype="f4")}, {})
    judge = Judge(net.spec)
    labels = np.array([0, 1, 2, 0, 0, 9])
    counts = Counts(judge)
    counts.add(judge.rows(net, (labels,)))
    assert judge.ending == "Softmax"
    assert counts.scores == {"accuracy by the data's labels": pytest.approx(4 / 5)}
    with pytest.raises(NetError, match=r"found scores 'p' of shape \(6, 4\), no labels, expected"):
        judge.rows(net, ())


def test_the_average_of_two_nets_may_be_right_where_both_are_wrong() -> None:
    labels = np.array([0, 1])
    one = Rows(np.array([[0.4, 0.6, 0.0], [0.4, 0.35, 0.25]]), labels)
    other = Rows(np.array([[0.4, 0.0, 0.6], [0.3, 0.35, 0.35]]), labels)
    mean = averaged([one, other])
    assert (mean.outputs == (one.outputs + other.outputs) / 2).all()
    assert mean.outputs.argmax(axis=1).tolist() == [0, 0]
    with pytest.raises(NetError, match=r"outputs of shapes \(1, 3\) and \(2, 3\), expected one"):
        averaged([one, Rows(one.outputs[:1], labels[:1])])
