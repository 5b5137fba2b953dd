"""Ten steps of each optimizer and of the average of weights, compared with PyTorch: 1e-10 relative
in float64, 1e-4 in float32.

Rate and momentum are numbers that float32 holds exactly, since a solver's file holds float32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nets import OptimizerSettings, RateSchedule, SolverExtras, WeightAverage, load_solver
from nets.definition.params import ParamSpec
from nets.schema import caffe_pb2 as caffe
from ops import get_backend
from roles.learning.parameter_store import ParameterStore

torch = pytest.importorskip(
    "torch", reason=("torch is not installed: the extra `reference` brings it")
)
STEPS = 10
RATE = 0.015625
MOMENTUM = 0.875
DECAY = 0.05
SHAPES = {"conv": ((6, 3, 3, 3), (6,)), "ip": ((5, 8), (5,)), "ip2": ((5, 8), (5,))}
NUMBERS = {"weight_decay": DECAY, "momentum2": 0.99, "delta": 1e-8, "trust": 0.02}
TOLERANCES = {np.float64: 1e-10, np.float32: 1e-4}


def params():
    filler = caffe.FillerParameter()
    return {
        layer: tuple(
            ParamSpec(layer, at, "weight" if at == 0 else "bias", shape, filler)
            for at, shape in enumerate(shapes)
        )
        for layer, shapes in SHAPES.items()
    }


def drawn(seed, dtype):
    random = np.random.default_rng(seed)
    return {
        layer: tuple(random.standard_normal(shape).astype(dtype) for shape in shapes)
        for layer, shapes in SHAPES.items()
    }


def solver_of(tmp_path, kind, **more):
    file = tmp_path / "s.prototxt"
    text = f'base_lr: {RATE} lr_policy: "fixed" max_iter: {STEPS} momentum: {MOMENTUM}'
    file.write_text(text, "utf-8")
    found = load_solver(file, {"type": kind, "weight_decay": DECAY})
    extras = SolverExtras(optimizer=OptimizerSettings(numbers=NUMBERS), **more)
    return replace(found, extras=extras)


def ours(solver, dtype, backend):
    store = ParameterStore(params(), drawn(0, dtype), solver, backend)
    for step in range(1, STEPS + 1):
        store.apply_all(drawn(step, dtype))
    return store


class OfTorch:
    """PyTorch's parameters, which `make` gives an optimizer for."""

    def __init__(self, dtype, make, schedule=None):
        self.at = {
            (layer, n): torch.nn.Parameter(torch.from_numpy(array.copy()))
            for layer, arrays in drawn(0, dtype).items()
            for n, array in enumerate(arrays)
        }
        optimizer = make([*self.at.values()])
        scheduler = schedule(optimizer) if schedule else None
        for step in range(1, STEPS + 1):
            gradients = drawn(step, dtype)
            for (layer, n), w in self.at.items():
                w.grad = torch.from_numpy(gradients[layer][n].copy())
            self.before(optimizer)
            optimizer.step()
            self.after()
            if scheduler:
                scheduler.step()

    def before(self, optimizer):
        """Work before a step."""

    def after(self):
        """Work after a step."""


def lars(weights):
    """SGD as PyTorch's, whose gradients `Lars` scales."""
    return torch.optim.SGD(weights, lr=RATE, momentum=MOMENTUM)


class Lars(OfTorch):
    """LARC of NVIDIA's apex, which changes the gradients before SGD takes them."""

    def before(self, optimizer):
        for w in self.at.values():
            g = w.grad + DECAY * w.detach()
            if w.ndim > 1:
                size = w.detach().norm()
                g *= NUMBERS["trust"] * size / (w.grad.norm() + DECAY * size + NUMBERS["delta"])
            w.grad = g


class Muon(OfTorch):
    """Jordan's Muon in the precision of its matrices, where PyTorch's multiplies in bfloat16."""

    def __init__(self, dtype):
        self.kept = {}
        super().__init__(dtype, self.adamw)

    def adamw(self, weights):
        return adamw([w for w in weights if w.ndim == 1])

    def before(self, optimizer):
        for key, w in self.at.items():
            if w.ndim == 1:
                continue
            kept = self.kept.setdefault(key, torch.zeros_like(w))
            kept.lerp_(w.grad, 1 - MOMENTUM)
            x = w.grad.lerp(kept, MOMENTUM).reshape(len(w), -1)
            turned = x.shape[0] > x.shape[1]
            x = x.T if turned else x
            x = x / x.norm().clamp(min=1e-7)
            for _ in range(5):
                gram = x @ x.T
                x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
            x = x.T if turned else x
            with torch.no_grad():
                w.mul_(1 - RATE * DECAY)
                w.sub_(RATE * 0.2 * max(x.shape) ** 0.5 * x.reshape(w.shape))


def adamw(weights):
    betas = (MOMENTUM, NUMBERS["momentum2"])
    return torch.optim.AdamW(weights, lr=RATE, betas=betas, eps=1e-8, weight_decay=DECAY)


def sgdw(weights, nesterov=False):
    return DecayedSgd(weights, lr=RATE, momentum=MOMENTUM, nesterov=nesterov)


class DecayedSgd(torch.optim.SGD):
    """PyTorch's SGD after a decoupled decay, as timm's SGDW."""

    def step(self):
        with torch.no_grad():
            for group in self.param_groups:
                for w in group["params"]:
                    w.mul_(1 - group["lr"] * DECAY)
        super().step()


def coupled(weights, nesterov=False):
    return torch.optim.SGD(
        weights, lr=RATE, momentum=MOMENTUM, nesterov=nesterov, weight_decay=DECAY
    )


CASES = {
    "SGD": lambda dtype: OfTorch(dtype, coupled),
    "Nesterov": lambda dtype: OfTorch(dtype, lambda w: coupled(w, nesterov=True)),
    "SGDW": lambda dtype: OfTorch(dtype, sgdw),
    "NesterovW": lambda dtype: OfTorch(dtype, lambda w: sgdw(w, nesterov=True)),
    "AdamW": lambda dtype: OfTorch(dtype, adamw),
    "LARS": lambda dtype: Lars(dtype, lars),
    "Muon": Muon,
}


def assert_near(store, theirs, dtype, phase="TRAIN"):
    for (layer, n), w in theirs.items():
        right = w.detach().numpy()
        error = np.abs(store.read(layer, phase)[n] - right).max() / np.abs(right).max()
        assert error < TOLERANCES[dtype], (layer, n, error)


@pytest.mark.parametrize("name", ["numpy", "cpu"])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("kind", CASES)
def test_ten_steps_are_those_of_pytorch(tmp_path, kind, dtype, name):
    store = ours(solver_of(tmp_path, kind), dtype, get_backend(name))
    assert_near(store, CASES[kind](dtype).at, dtype)


@pytest.mark.parametrize("kind", ["AdamW", "NesterovW"])
def test_ten_steps_with_a_schedule_are_those_of_pytorch(tmp_path, kind):
    schedule = RateSchedule("cosine", end=0.1)
    store = ours(solver_of(tmp_path, kind, schedule=schedule), np.float64, get_backend("numpy"))
    make = adamw if kind == "AdamW" else lambda w: sgdw(w, nesterov=True)
    theirs = OfTorch(
        np.float64,
        make,
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS, eta_min=0.1 * RATE),
    )
    assert_near(store, theirs.at, np.float64)


class Averaged(OfTorch):
    """The average of the weights by PyTorch's own class."""

    def __init__(self, dtype):
        self.average = None
        super().__init__(dtype, adamw)

    def after(self):
        if self.average is None:
            self.names = {key: f"w{at}" for at, key in enumerate(self.at)}
            module = torch.nn.Module()
            for key, name in self.names.items():
                module.register_parameter(name, self.at[key])
            swa = torch.optim.swa_utils
            self.module = module
            function = swa.get_ema_multi_avg_fn(0.75)
            self.average = swa.AveragedModel(module, multi_avg_fn=function)
        self.average.update_parameters(self.module)


@pytest.mark.parametrize("name", ["numpy", "cpu"])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_the_average_after_ten_steps_is_that_of_pytorch(tmp_path, dtype, name):
    solver = solver_of(tmp_path, "AdamW", average=WeightAverage(0.75))
    store = ours(solver, dtype, get_backend(name))
    theirs = Averaged(dtype)
    assert_near(store, theirs.at, dtype)
    averages = {key: getattr(theirs.average.module, name) for key, name in theirs.names.items()}
    assert_near(store, averages, dtype, "TEST")


def test_pytorchs_own_muon_goes_the_same_way_in_bfloat16(tmp_path):
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this version of torch has no Muon")
    store = ours(solver_of(tmp_path, "Muon"), np.float32, get_backend("numpy"))

    class OfMatrices(OfTorch):
        def before(self, optimizer):
            self.at = {key: w for key, w in self.at.items() if w.ndim == 2}

    def muon(weights):
        return torch.optim.Muon(
            [w for w in weights if w.ndim == 2],
            lr=RATE,
            weight_decay=DECAY,
            momentum=MOMENTUM,
            adjust_lr_fn="match_rms_adamw",
        )

    for (layer, n), w in OfMatrices(np.float32, muon).at.items():
        assert np.abs(store.read(layer)[n] - w.detach().numpy()).max() < 0.02
