"""Learning rates follow Caffe's policies. The solvers of the zoo train their net."""

import math
from pathlib import Path

import numpy as np
import pytest

from nets import PrototxtError, load_net, load_solver
from nets.data import Batches, Transform, open_source
from nets.definition.solver import SolverSpec
from nets.graph.graph import Net
from ops import get_backend
from tests.nets.support import MODELS, backward, needs_shared


def solver(tmp_path, text) -> SolverSpec:
    file = tmp_path / "s.prototxt"
    file.write_text(f"base_lr: 0.5 max_iter: 100 {text}", "utf-8")
    return load_solver(file)


def test_a_solver_whose_file_has_changed_is_read_again(tmp_path):
    first = solver(tmp_path, 'lr_policy: "fixed"')
    assert load_solver(first.path) is first
    assert solver(tmp_path, 'lr_policy: "fixed" momentum: 0.5').momentum == 0.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('lr_policy: "fixed"', {0: 0.5, 99: 0.5}),
        ('lr_policy: "step" gamma: 0.5 stepsize: 10', {0: 0.5, 9: 0.5, 10: 0.25, 25: 0.125}),
        ('lr_policy: "exp" gamma: 0.5', {0: 0.5, 3: 0.0625}),
        ('lr_policy: "inv" gamma: 0.25 power: 2', {0: 0.5, 4: 0.125}),
        (
            ('lr_policy: "multistep" gamma: 0.5 stepvalue: 5 stepvalue: 8'),
            {4: 0.5, 5: 0.25, 7: 0.25, 8: 0.125},
        ),
        ('lr_policy: "poly" power: 2', {0: 0.5, 50: 0.125, 100: 0.0}),
        (
            'lr_policy: "sigmoid" gamma: 0.5 stepsize: 2000',
            {2000: 0.25, 2002: 0.5 / (1 + math.exp(-1)), 4000: 0.5, 0: 0.0},
        ),
    ],
)
def test_every_rate_policy_gives_caffes_rates(tmp_path, text, expected):
    found = {iteration: solver(tmp_path, text).rate(iteration) for iteration in expected}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        'lr_policy: "exp" gamma: 1e30',
        'lr_policy: "poly" power: -1',
        'lr_policy: "inv" gamma: 1e30 power: -99',
    ],
)
def test_a_rate_too_large_for_a_number_is_infinite(tmp_path, text):
    assert solver(tmp_path, text).rate(100) == math.inf


def test_values_that_are_given_may_be_missing_or_wrong_in_the_file(tmp_path):
    text = 'net: "n" lr_policy: "poly" power: 1 momentum: 2'
    (tmp_path / "s.prototxt").write_text(text)
    given = {"max_iter": 10, "base_lr": 0.5, "momentum": 0.9}
    found = load_solver(tmp_path / "s.prototxt", given)
    assert (found.max_iter, found.rate(5), found.momentum) == (10, 0.25, pytest.approx(0.9))
    for left_out in given:
        others = {key: value for key, value in given.items() if key != left_out}
        with pytest.raises(PrototxtError, match=left_out):
            load_solver(tmp_path / "s.prototxt", others)
    with pytest.raises(PrototxtError):
        load_solver(tmp_path / "s.prototxt")


def test_our_lenet_solver_has_the_published_recipe():
    ours = load_solver("lenet")
    assert (ours.max_iter, ours.momentum, ours.test_iters) == (10000, pytest.approx(0.9), (100,))
    assert ours.rate(1000) == pytest.approx(0.01 * 1.1**-0.75)
    assert ours.load_net().name == "LeNet"
    assert ours.random_seed is None


@needs_shared
def test_the_published_lenet_solver_finds_its_net_in_its_folder():
    theirs = load_solver(MODELS / "lenet" / "lenet_solver.prototxt")
    ours = load_solver("lenet")
    assert [theirs.rate(i) for i in (0, 10, 9999)] == [ours.rate(i) for i in (0, 10, 9999)]
    assert theirs.load_net().name == "LeNet"


def test_a_solver_whose_net_is_missing_lists_the_searched_places(tmp_path):
    found = solver(tmp_path, 'lr_policy: "fixed"\nnet: "nowhere/net.prototxt"')
    with pytest.raises(PrototxtError) as caught:
        found.load_net()
    assert str(caught.value) == (
        "s.prototxt:2: key 'net': found 'nowhere/net.prototxt', but no such file exists "
        "here or next to the solver"
    )


def test_phase_level_and_stage_rules_choose_layers(tmp_path):
    file = tmp_path / "n.prototxt"
    rules = {
        "train": "include { phase: TRAIN }", "test": "exclude { phase: TRAIN }", "both": "",
        "deep": "include { min_level: 2 }", "flat": "include { max_level: 1 }",
        "staged": 'include { stage: "a" stage: "b" }', "not": 'include { not_stage: "a" }',
    }  # fmt: skip
    file.write_text(
        "".join((f'layer {{ name: "{n}" type: "Input" {rule} }}') for n, rule in rules.items()),
        "utf-8",
    )
    spec = load_net(file)

    def names(*args, **kw):
        return [layer.proto.name for layer in spec.for_phase(*args, **kw).layers]

    assert names("TRAIN") == ["train", "both", "flat", "not"]
    assert names("TEST", level=2) == ["test", "both", "deep", "not"]
    assert names("TEST", stages=("a", "b")) == ["test", "both", "flat", "staged"]
    assert names("TEST", stages=("a",)) == ["test", "both", "flat"]


@pytest.mark.slow
def test_lenet_learns_the_digits_that_ship():
    ops = get_backend()
    schedule = load_solver("lenet_digits")
    train, test = (
        open_source({"format": "digits", "split": split}, Path()) for split in ("train", "test")
    )
    net = Net(schedule.load_net(), "TRAIN", ops=ops, input_shape=train.shape)
    batches = Batches(
        train, Transform.of_net(net.spec, "TRAIN"), 64, shuffle=True, seed=0, train=True
    )
    blobs = net.initial_blobs()
    history = {layer: tuple(np.zeros_like(blob) for blob in pair) for layer, pair in blobs.items()}
    for step in range(schedule.max_iter):
        images, labels = batches.read(step, 0, 64)
        net.run({"data": images, "label": labels}, blobs, step)
        for layer, grads in backward(net).items():
            for w, g, h, param in zip(
                blobs[layer], grads, history[layer], net.params[layer], strict=True
            ):
                ops.sgd_update(
                    w, g, h, rate=schedule.rate(step) * param.lr_mult, momentum=schedule.momentum,
                    decay=schedule.weight_decay * param.decay_mult, out_w=w, out_h=h,
                )  # fmt: skip
    whole = Net(schedule.load_net(), "TEST", ops=ops, input_shape=test.shape, batch=len(test))
    images, labels = Batches(
        test, Transform(scale=1 / 256), len(test), shuffle=False, seed=0, train=False
    ).read(0, 0, 359)
    assert whole.run({"data": images, "label": labels}, blobs)["accuracy"] >= 0.975
