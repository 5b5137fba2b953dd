"""Every solver type compared with plain float64 formulas of its updates; clipping, iter_size, larger
batches."""

import math

import numpy as np
import pytest

from nets import OptimizerSettings, PrototxtError, load_solver
from nets.definition.params import ParamSpec
from nets.definition.scaling import linear, square_root
from nets.definition.solver_types import RULES
from nets.schema import caffe_pb2 as caffe
from ops import get_backend

OPS = get_backend()
PARAM = ParamSpec("l", 0, "weight", (3, 4), caffe.FillerParameter(), 2.0, 0.5)
RATE = 0.1  # the rate of the prototxt; the parameter's multipliers are 2 and 0.5
DECAY = 0.02


def solver(tmp_path, text):
    file = tmp_path / "s.prototxt"
    file.write_text(
        (f'base_lr: {RATE} max_iter: 9 lr_policy: "exp" gamma: 0.5 weight_decay: {DECAY} {text}'),
        "utf-8",
    )
    return load_solver(file)


def sgd(state, g, lr, t):
    state["h"] = 0.9 * state.get("h", 0) + lr * g
    return state["h"]


def nesterov(state, g, lr, t):
    old = state.get("h", 0)
    state["h"] = 0.9 * old + lr * g
    return 1.9 * state["h"] - 0.9 * old


def adagrad(state, g, lr, t):
    state["h"] = state.get("h", 0) + g**2
    return lr * g / (np.sqrt(state["h"]) + 1e-3)


def rmsprop(state, g, lr, t):
    state["h"] = 0.8 * state.get("h", 0) + 0.2 * g**2
    return lr * g / (np.sqrt(state["h"]) + 1e-3)


def adadelta(state, g, lr, t):
    state["h"] = 0.9 * state.get("h", 0) + 0.1 * g**2
    step = g * np.sqrt((state.get("u", 0) + 1e-3) / (state["h"] + 1e-3))
    state["u"] = 0.9 * state.get("u", 0) + 0.1 * step**2
    return lr * step


def adam(state, g, lr, t):
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g**2
    return lr * math.sqrt(1 - 0.99**t) / (1 - 0.9**t) * state["m"] / (np.sqrt(state["v"]) + 1e-3)


CASES = {
    "SGD": ("momentum: 0.9", sgd),
    "Nesterov": ("momentum: 0.9", nesterov),
    "AdaGrad": ("delta: 1e-3", adagrad),
    "RMSProp": ("rms_decay: 0.8 delta: 1e-3", rmsprop),
    "AdaDelta": ("momentum: 0.9 delta: 1e-3", adadelta),
    "Adam": ("momentum: 0.9 momentum2: 0.99 delta: 1e-3", adam),
}


def sgdw(state, g, lr, t):
    state["h"] = 0.9 * state.get("h", 0) + g
    return lr * state["h"]


def nesterovw(state, g, lr, t):
    state["h"] = 0.9 * state.get("h", 0) + g
    return lr * (g + 0.9 * state["h"])


def adamw(state, g, lr, t):
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g**2
    return lr * state["m"] / (1 - 0.9**t) / (np.sqrt(state["v"] / (1 - 0.99**t)) + 1e-3)


def muon(state, g, lr, t):
    state["h"] = 0.9 * state.get("h", 0) + 0.1 * g
    x = g + 0.9 * (state["h"] - g)
    x = x / np.linalg.norm(x)
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x @ x.T @ x + 2.0315 * x @ x.T @ x @ x.T @ x
    return lr * 0.2 * 2 * x  # the largest side of the parameter is 4


DECOUPLED = {
    "SGDW": ("momentum: 0.9", sgdw),
    "NesterovW": ("momentum: 0.9", nesterovw),
    "AdamW": ("momentum: 0.9 momentum2: 0.99 delta: 1e-3", adamw),
    "Muon": ("momentum: 0.9", muon),
}


@pytest.mark.parametrize("regularization", ["L1", "L2"])
@pytest.mark.parametrize("kind", CASES)
def test_every_solver_type_updates_as_caffe_does(tmp_path, kind, regularization):
    options, step_of = CASES[kind]
    found = solver(tmp_path, f'type: "{kind}" {options} regularization_type: "{regularization}"')
    random = np.random.default_rng(0)
    state = {}
    w = expected = random.standard_normal(PARAM.shape)
    history = found.new_history(OPS, PARAM, np.float64)
    for iteration in range(4):
        g = random.standard_normal(PARAM.shape)
        before = (w.copy(), g.copy())
        new, history = found.update(OPS, iteration, PARAM, w, g, history)
        assert np.array_equal(w, before[0])
        assert np.array_equal(g, before[1])
        penalty = expected if regularization == "L2" else np.sign(expected)
        rate = RATE * 0.5**iteration * PARAM.lr_mult
        expected = expected - step_of(
            state, g + DECAY * PARAM.decay_mult * penalty, rate, iteration + 1
        )
        np.testing.assert_allclose(new, expected, rtol=1e-5, atol=1e-7)  # a prototxt holds float32
        w = new
    assert len(history) == RULES[kind].histories


@pytest.mark.parametrize("kind", DECOUPLED)
def test_decoupled_optimizers_take_the_decay_from_the_parameter(tmp_path, kind):
    options, step_of = DECOUPLED[kind]
    found = solver(tmp_path, f'type: "{kind}" {options}')
    random = np.random.default_rng(0)
    state = {}
    w = expected = random.standard_normal(PARAM.shape)
    history = found.new_history(OPS, PARAM, np.float64)
    for iteration in range(4):
        g = random.standard_normal(PARAM.shape)
        w, history = found.update(OPS, iteration, PARAM, w, g, history)
        rate = RATE * 0.5**iteration * PARAM.lr_mult
        shrink = rate * DECAY * PARAM.decay_mult
        expected = expected - step_of(state, g, rate, iteration + 1) - shrink * expected
        np.testing.assert_allclose(w, expected, rtol=1e-5, atol=1e-6)  # a prototxt holds float32
    assert len(history) == RULES[kind].histories


def test_lars_scales_the_rate_of_weights_by_their_norm_and_leaves_biases_alone(tmp_path):
    found = solver(tmp_path, 'type: "LARS" momentum: 0')
    w = np.full((3, 4), 2.0)
    g = np.full((3, 4), 0.5)
    new, _ = found.update(OPS, 0, PARAM, w, g, found.new_history(OPS, PARAM, np.float64))
    decay = DECAY * PARAM.decay_mult
    local = 0.001 * 2.0 / (0.5 + decay * 2.0)
    np.testing.assert_allclose(w - new, RATE * PARAM.lr_mult * local * (0.5 + decay * 2), rtol=1e-6)
    bias = ParamSpec("l", 1, "bias", (4,), caffe.FillerParameter(), 1.0, 0.0)
    history = found.new_history(OPS, bias, np.float64)
    new, _ = found.update(OPS, 0, bias, w[0], g[0], history)
    np.testing.assert_allclose(w[0] - new, RATE * 0.5, rtol=1e-6)


def test_muon_updates_biases_as_adamw(tmp_path):
    bias = ParamSpec("l", 1, "bias", (4,), caffe.FillerParameter())
    new = []
    for kind in ("Muon", "AdamW"):
        found = solver(tmp_path, f'type: "{kind}" momentum: 0.9 momentum2: 0.99')
        history = found.new_history(OPS, bias, np.float64)
        assert len(history) == 2
        new.append(found.update(OPS, 0, bias, np.ones(4), np.arange(4.0), history)[0])
    np.testing.assert_array_equal(*new)


def test_decay_of_weights_only_and_rates_by_layer_change_the_multipliers_of_parameters():
    filler = caffe.FillerParameter()
    settings = OptimizerSettings("weights", (("conv*", 0.1), ("c*", 5.0)))
    made = [
        settings.adjusted(ParamSpec(layer, 0, "w", shape, filler, 2.0, 0.5, keep))
        for layer, shape, keep in (
            ("conv1", (3, 4), None),
            ("conv1", (3,), None),
            ("cut", (3, 4), None),
            ("ip", (3, 4), None),
            ("conv1", (3,), 0.9),
        )
    ]
    assert [(p.lr_mult, p.decay_mult) for p in made] == [
        (0.2, 0.5),
        (0.2, 0.0),
        (10.0, 0.5),
        (2.0, 0.5),
        (2.0, 0.5),
    ]


def test_the_cases_above_cover_every_solver_type():
    assert {*CASES, *DECOUPLED, "LARS"} == RULES.keys()


def test_the_decay_of_decoupled_optimizers_is_l2(tmp_path):
    with pytest.raises(PrototxtError, match="the weight decay of AdamW is L2"):
        solver(tmp_path, 'type: "AdamW" regularization_type: "L1"')


@pytest.mark.parametrize("number", range(6))
def test_the_old_way_to_write_a_solvers_type_means_the_same(tmp_path, number):
    name = caffe.SolverParameter.SolverType.Name(number)
    assert solver(tmp_path, f"solver_type: {name}").type.upper() == name


@pytest.mark.parametrize(("iter_size", "factor"), [(1, 0.5), (2, 0.25)])
def test_gradients_are_clipped_by_the_norm_of_all_of_them(tmp_path, iter_size, factor):
    found = solver(tmp_path, f"clip_gradients: 2.5 iter_size: {iter_size}")
    # the norm is 5; Caffe clips the sum over iter_size batches
    gradients = [np.array([3.0, 0]), np.array([[0.0, 4]])]
    assert found.clip_factor(OPS, gradients) == pytest.approx(factor)
    assert found.clip_factor(OPS, [g / 10 for g in gradients]) == 1
    assert solver(tmp_path, "").clip_factor(OPS, gradients) == 1


@pytest.mark.parametrize("squares", [[1e308, 1e308], [math.inf, 1.0]])
def test_gradients_whose_norm_overflows_are_clipped_to_nothing(tmp_path, squares):
    assert solver(tmp_path, "clip_gradients: 2.5").clip_factor_of(squares) == 0


def test_a_solver_states_its_level_and_stages(tmp_path):
    found = solver(tmp_path, 'test_state { stage: "a" level: 2 } train_state { stage: "b" }')
    assert (found.state("TEST"), found.state("TRAIN")) == ((2, ("a",)), (None, ("b",)))
    assert solver(tmp_path, "").state("TEST") == (None, ())


def test_rates_for_larger_batches_agree_with_the_papers():
    assert linear(0.01, 0.0005, 4) == (0.04, 0.0005)  # FireCaffe's NiN, batch 256 -> 1024
    rate, decay = square_root(0.01, 0.0005, 8)  # One weird trick's example, batch 128 -> 1024
    assert rate == pytest.approx(math.sqrt(8) * 0.01)
    assert decay == pytest.approx(0.0014141888, rel=1e-6)
    assert (1 - rate * decay) == pytest.approx((1 - 0.01 * 0.0005) ** 8)
    for rule in (linear, square_root):
        with pytest.raises(ValueError, match="k is 0, expected a positive number"):
            rule(0.01, 0, 0)
