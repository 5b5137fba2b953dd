"""The answers to mistakes in [train.optimizer], [train.schedule], [train.ema] and the keys in
epochs: one line with file, line and key, what is allowed, and exit 2."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nets.definition.spec import ZOO
from runtime.cli.main import main
from runtime.runs.checking import check

# name -> (cluster.toml, the line and its key, a part of the text)
BROKEN = {
    "an unknown optimizer": (
        "[train.optimizer]\ntype = 'adamw'\n",
        "2: train.optimizer.type",
        "found 'adamw' (string), expected 'SGD' or 'Nesterov' or 'AdaGrad' or 'RMSProp' or "
        "'AdaDelta' or 'Adam' or 'AdamW' or 'LARS' or 'Muon' (did you mean 'AdamW'?)",
    ),
    "an unknown key of an optimizer": (
        "[train.optimizer]\ntype = 'AdamW'\nmomentum_2 = 0.9\n",
        "3: train.optimizer.momentum_2",
        "did you mean 'momentum2'",
    ),
    "a momentum in the section of the optimizer": (
        "[train.optimizer]\ntype = 'AdamW'\nmomentum = 0.9\n",
        "3: train.optimizer.momentum",
        "unknown key, expected train.momentum",
    ),
    "a rate as other programs name it": (
        "[train]\nlr = 0.1\n",
        "2: train.lr",
        "unknown key, expected base_lr",
    ),
    "smoothing of labels, which belongs to the net": (
        "[train]\nlabel_smoothing = 0.1\n",
        "2: train.label_smoothing",
        "unknown key, expected loss_param { label_smoothing: 0.1 } of the net's SoftmaxWithLoss",
    ),
    "a warm-up as other programs name it": (
        "[train.schedule]\ntype = 'cosine'\nwarmup_steps = 3\n",
        "3: train.schedule.warmup_steps",
        "unknown key, expected warmup",
    ),
    "an average as other programs name it": (
        "[train.ema]\nmomentum = 0.9\n",
        "2: train.ema.momentum",
        "unknown key, expected decay",
    ),
    "a net in a Python file": (
        "[train]\nnet = 'mine.py'\n",
        "2: train.net",
        "mine.py: found a Python file, expected a prototxt, an ONNX file or a name of the zoo",
    ),
    "a factor of steps as Caffe names it": (
        "[train.schedule]\ntype = 'step'\nevery = 3\ngamma = 0.1\n",
        "4: train.schedule.gamma",
        "unknown key, expected factor",
    ),
    "a decay below zero": (
        "[train.optimizer]\nweight_decay = -0.1\n",
        "2: train.optimizer.weight_decay",
        "found -0.1 (float), expected a finite number >= 0",
    ),
    "a decay of an unknown kind of parameters": (
        "[train.optimizer]\ndecays = 'biases'\n",
        "2: train.optimizer.decays",
        "expected 'all' or 'weights'",
    ),
    "a second momentum of 1": (
        "[train.optimizer]\ntype = 'AdamW'\nmomentum2 = 1.0\n",
        "3: train.optimizer.momentum2",
        "expected a number >= 0 and < 1",
    ),
    "a second momentum of SGD": (
        "[train.optimizer]\ntype = 'SGD'\nmomentum2 = 0.99\n",
        "3: train.optimizer.momentum2",
        "found 0.99, but 'SGD' does not take it, only Adam, AdamW, Muon",
    ),
    "an epsilon of SGD": (
        "[train.optimizer]\ntype = 'Nesterov'\nepsilon = 1e-6\n",
        "3: train.optimizer.epsilon",
        "found 1e-06, but 'Nesterov' does not take it, only AdaGrad",
    ),
    "an epsilon of zero": (
        "[train.optimizer]\ntype = 'Adam'\nepsilon = 0\n",
        "3: train.optimizer.epsilon",
        "expected a finite number > 0",
    ),
    "a trust coefficient of AdamW": (
        "[train.optimizer]\ntype = 'AdamW'\ntrust = 0.01\n",
        "3: train.optimizer.trust",
        "found 0.01, but 'AdamW' does not take it, only LARS",
    ),
    "a trust coefficient for the solver's own type": (
        "[train.optimizer]\ntrust = 0.01\n",
        "2: train.optimizer.trust",
        "found 0.01, but 'SGD' of lenet_digits_solver.prototxt does not take it, only LARS",
    ),
    "an epsilon for the solver's own type": (
        "[train.optimizer]\nepsilon = 1e-6\n",
        "2: train.optimizer.epsilon",
        "found 1e-06, but 'SGD' of lenet_digits_solver.prototxt does not take it, only AdaGrad",
    ),
    "a decoupled decay of RMSProp": (
        "[train.optimizer]\ntype = 'RMSProp'\ndecoupled = true\n[train]\nmomentum = 0.0\n",
        "3: train.optimizer.decoupled",
        "found true with type 'RMSProp', expected one of the types SGD, Nesterov, Adam, AdamW",
    ),
    "a decoupled decay without a type": (
        "[train.optimizer]\ndecoupled = true\n",
        "2: train.optimizer.decoupled",
        "found true without a type of the optimizer, expected one of SGD, Nesterov, Adam, AdamW",
    ),
    "a clipped norm of zero": (
        "[train.optimizer]\nclip_norm = 0.0\n",
        "2: train.optimizer.clip_norm",
        "expected a finite number > 0",
    ),
    "a rate below zero": (
        "[train.lr_scale]\n'conv*' = -1\n",
        "2: train.lr_scale.'conv*'",
        "expected a finite number > 0",
    ),
    "a rate of no layer": (
        "[train.lr_scale]\n'cnov1' = 0.1\n",
        "2: train.lr_scale.cnov1",
        "fits no layer with parameters (did you mean 'conv1'?); these have some: conv1, conv2, ip1",
    ),
    "Muon where the FC phase is divided": (
        "[train.optimizer]\ntype = 'Muon'\n[train.strategy]\npreset = 'one-weird-trick'\n",
        "4: train.strategy.preset",
        "the optimizer 'Muon' needs whole parameters, and preset 'one-weird-trick' divides those",
    ),
    "LARS where the FC phase is divided": (
        "[train.optimizer]\ntype = 'LARS'\n"
        "[train.strategy]\npreset = 'local-fc-shards'\nservers = 2\n",
        "4: train.strategy.preset",
        "the optimizer 'LARS' needs whole parameters",
    ),
    "an unknown schedule": (
        "[train.schedule]\ntype = 'cosin'\n",
        "2: train.schedule.type",
        "found 'cosin' (string), expected 'cosine' or 'one-cycle' or 'linear' or 'step' or "
        "'plateau' or 'solver' (did you mean 'cosine'?)",
    ),
    "an unknown key of a schedule": (
        "[train.schedule]\ntype = 'cosine'\nwarm_up = 5\n",
        "3: train.schedule.warm_up",
        "did you mean 'warmup'",
    ),
    "a warm-up of half an iteration": (
        "[train.schedule]\nwarmup = 0.5\n",
        "2: train.schedule.warmup",
        "expected an integer >= 0",
    ),
    "a warm-up longer than the run": (
        "[train]\nmax_iter = 10\n[train.schedule]\ntype = 'cosine'\nwarmup = 10\n",
        "5: train.schedule.warmup",
        "expected less than the 10 iterations of the run",
    ),
    "a warm-up in two units": (
        "[train.schedule]\nwarmup = 5\nwarmup_epochs = 1\n",
        "3: train.schedule.warmup_epochs",
        "found 1.0 together with 'warmup', expected one of them",
    ),
    "steps of a cosine": (
        "[train.schedule]\ntype = 'cosine'\nat = [5]\n",
        "3: train.schedule.at",
        "found [5], but a schedule of type 'cosine' takes only warmup, warmup_epochs, "
        "warmup_from, end",
    ),
    "steps without their times": (
        "[train.schedule]\ntype = 'step'\n",
        "2: train.schedule.type",
        "found 'step' without its steps, expected one of at, at_epochs, every, every_epochs",
    ),
    "steps that go back": (
        "[train.schedule]\ntype = 'step'\nat = [20, 10]\n",
        "3: train.schedule.at",
        "found [20, 10], expected rising numbers",
    ),
    "steps after the end": (
        "[train]\nmax_iter = 10\n[train.schedule]\ntype = 'step'\nat = [5, 20]\n",
        "5: train.schedule.at",
        "found [5, 20]: iteration 20 is not one of the 10 iterations of the run",
    ),
    "equal steps and given steps": (
        "[train.schedule]\ntype = 'step'\nat = [5]\nevery = 5\n",
        "4: train.schedule.every",
        "found 5 together with 'at', expected one of at, at_epochs, every, every_epochs",
    ),
    "a step that raises the rate": (
        "[train.schedule]\ntype = 'step'\nat = [5]\nfactor = 2\n",
        "4: train.schedule.factor",
        "expected a number > 0 and < 1",
    ),
    "a plateau of an unknown score": (
        "[train.schedule]\ntype = 'plateau'\nby = 'acuracy'\n",
        "3: train.schedule.by",
        "found 'acuracy', but tests report no such score (did you mean 'accuracy'?)",
    ),
    "a plateau without patience": (
        "[train.schedule]\ntype = 'plateau'\npatience = 0\n",
        "3: train.schedule.patience",
        "expected an integer >= 1",
    ),
    "a plateau of a rate that the tuner chooses": (
        "[train]\nbase_lr = 'auto'\n[train.schedule]\ntype = 'plateau'\n",
        "2: train.base_lr",
        "found 'auto', but train.schedule.type 'plateau' changes the rate too",
    ),
    "an average that never changes": (
        "[train.ema]\ndecay = 1.0\n",
        "2: train.ema.decay",
        "expected a number >= 0 and < 1",
    ),
    "an average over time of models that learn separately": (
        "[train.ema]\n[train.strategy]\npreset = 'sparknet'\n",
        "1: train.ema",
        "preset 'sparknet' averages models that learn separately",
    ),
    "a warm-up of a recipe that is longer than the run": (
        "[train]\nmax_iter = 10\nrecipe = 'cifar'\n",
        "3: train.recipe",
        "of the run; give train.schedule.warmup_epochs yourself, or write the recipe's other keys in "
        "place of the recipe",
    ),
    "an average of a recipe for models that learn separately": (
        "[train]\nrecipe = 'cifar'\n[train.strategy]\npreset = 'sparknet'\n",
        "2: train.recipe",
        "'cifar' sets train.ema: preset 'sparknet' averages models that learn separately",
    ),
    "no epochs": (
        "[train]\nepochs = 0\n",
        "2: train.epochs",
        "expected a number > 0, at most 1000000000",
    ),
    "epochs beyond all numbers": (
        "[train]\nepochs = 1e306\n",
        "2: train.epochs",
        "found 1e+306 (float), expected a number > 0, at most 1000000000",
    ),
    "epochs of too many iterations": (
        "[train]\nepochs = 1e9\n",
        "2: train.epochs",
        "1e+09 epochs of 1438 images: 22468750000 iterations, expected at most 2147483647",
    ),
    "tests after too many iterations": (
        "[train]\ntest_epochs = 1e9\n",
        "2: train.test_epochs",
        "expected at most 2147483647",
    ),
    "checkpoints after too many iterations": (
        "[train]\n[checkpoint]\nepochs = 1e9\n",
        "3: checkpoint.epochs",
        "expected at most 2147483647",
    ),
    "too many iterations": (
        "[train]\nmax_iter = 3000000000\n",
        "2: train.max_iter",
        "expected an integer from 1 to 2147483647",
    ),
    "a rate that is 0 in single precision": (
        "[train]\nbase_lr = 1e-50\n",
        "2: train.base_lr",
        "found 1e-50 (float), expected at least 1.2e-38, the least in single precision",
    ),
    "a decay that is infinite in single precision": (
        "[train.optimizer]\nweight_decay = 1e300\n",
        "2: train.optimizer.weight_decay",
        "found 1e+300 (float), expected at most 3.4e+38, the most in single precision",
    ),
    "an epsilon that is 0 in single precision": (
        "[train.optimizer]\ntype = 'AdamW'\nepsilon = 1e-300\n",
        "3: train.optimizer.epsilon",
        "expected at least 1.2e-38",
    ),
    "a momentum that is 1 in single precision": (
        "[train]\nmomentum = 0.99999999999\n",
        "2: train.momentum",
        "found 0.99999999999 (float), expected at most 0.9999999: it is 1 in single precision",
    ),
    "a deviation that is 0 in single precision": (
        "[train.data]\ndeviation = [1e-300]\n",
        "2: train.data.deviation[0]",
        "expected at least 1.2e-38",
    ),
    "an average that changes after the end": (
        "[train]\nmax_iter = 10\n[train.ema]\nevery = 11\n",
        "4: train.ema.every",
        "found 11, so the average would never change: expected at most the 10 iterations",
    ),
    "a first step after the end": (
        "[train]\nmax_iter = 10\n[train.schedule]\ntype = 'step'\nevery = 10\n",
        "5: train.schedule.every",
        "found 10: the first step would be iteration 10, but the run has only 10 iterations",
    ),
    "two steps in one iteration": (
        "[train]\nmax_iter = 10\n[train.schedule]\ntype = 'step'\nat_epochs = [0.01, 0.02]\n",
        "5: train.schedule.at_epochs",
        "found [0.01, 0.02]: two of these times are iteration 1, expected different iterations",
    ),
    "checkpoints in epochs of an open batch": (
        "[train]\nbatch = 'auto'\n[checkpoint]\nepochs = 1\n",
        "2: train.batch",
        "found 'auto', but checkpoint.epochs counts epochs, whose iterations would change",
    ),
    "a batch to try that is too large for an array": (
        "[train]\nbatch = 'auto'\nmax_iter = 2000\n[train.tuning]\nbatches = [1000000000000]\n",
        "5: train.tuning.batches",
        "its top would have shape (64000000000000, 1, 28, 28), expected at most",
    ),
    "epochs and iterations": (
        "[train]\nepochs = 2\nmax_iter = 100\n",
        "2: train.epochs",
        "found 2 together with 'max_iter', expected one of them",
    ),
    "epochs of an open batch": (
        "[train]\nepochs = 2\nbatch = 'auto'\n",
        "3: train.batch",
        "found 'auto', but train.epochs counts epochs, whose iterations would change",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_answered_with_its_line_its_key_and_what_is_allowed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml, place, text = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(toml)
    Path("mine.py").touch()
    assert main(["check", "cluster.toml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    found = [line for line in lines if line.startswith(f"cluster.toml:{place}: ")]
    assert found, lines
    assert text in found[0]


REPLACED = """[train]
epochs = 2
test_epochs = 0.5
[train.optimizer]
type = "AdamW"
weight_decay = 0.05
[train.schedule]
type = "cosine"
warmup_epochs = 0.25
[checkpoint]
epochs = 1
"""


def test_each_setting_of_the_solver_that_a_key_replaces_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(REPLACED)
    assert main(["check", "cluster.toml"]) == 0
    said = capsys.readouterr()
    assert "replaces" not in said.err
    told = said.out.splitlines()
    for text in (
        "train.optimizer.type: 'AdamW' replaces type 'SGD' of lenet_digits_solver.prototxt",
        "train.optimizer.weight_decay: 0.05 replaces weight_decay 0.0005 of",
        "train.schedule.type: 'cosine' replaces lr_policy",
        "train.epochs: 2 epochs of",
        "iterations, in place of the solver's max_iter",
        "train.test_epochs: 0.5 epochs of",
        "iterations, in place of the solver's test_interval",
        "checkpoint.epochs: 1 epoch of",
        "iterations, in place of the solver's snapshot",
    ):
        assert any(text in line for line in told), (text, told)


def test_an_optimizer_without_the_momentum_that_it_needs_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.prototxt").write_text(
        'net: "lenet.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 9'
    )
    Path("cluster.toml").write_text(
        "[train]\nsolver = 's.prototxt'\n[train.optimizer]\ntype = 'AdamW'\n"
    )
    assert main(["check", "cluster.toml"]) == 0
    told = [record.getMessage() for record in caplog.records]
    text = "train.optimizer.type: 'AdamW' without momentum, since s.prototxt has none"
    assert any(text in line for line in told), told


DOUBTFUL = {
    "a rate of the solver that is for another type": (
        "[train.optimizer]\ntype = 'AdamW'\n",
        "2: train.optimizer.type: 'AdamW' with base_lr 0.03 of lenet_digits_solver.prototxt, a rate "
        "for 'SGD'; give train.base_lr",
    ),
    "a rate of a recipe that is for another type": (
        "[train]\nrecipe = 'cifar'\n[train.optimizer]\ntype = 'LARS'\n",
        "4: train.optimizer.type: 'LARS' with base_lr 0.03 of lenet_digits_solver.prototxt, a rate "
        "for 'SGD', since the rate of 'cifar' is for another type; give train.base_lr",
    ),
    "an average that mostly holds the first weights": (
        "[train]\nmax_iter = 450\n[train.ema]\ndecay = 0.999\n",
        "4: train.ema.decay: found 0.999: after the 450 iterations of the run, the first weights still "
        "make up 64% of the average; ramp = true avoids this",
    ),
}
FINE = (
    "[train.optimizer]\ntype = 'Nesterov'\n",
    "[train]\nbase_lr = 0.002\n[train.optimizer]\ntype = 'AdamW'\n",
    "[train]\nmax_iter = 450\n[train.ema]\ndecay = 0.999\nramp = true\n",
    "[train]\nmax_iter = 450\n[train.ema]\ndecay = 0.99\n",
)


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_setting_that_is_hardly_meant_is_reported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml, text = DOUBTFUL[name]
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(toml)
    warnings = check(Path("cluster.toml")).warnings
    assert any(line.endswith(f"cluster.toml:{text}") for line in warnings), warnings


@pytest.mark.parametrize("toml", FINE)
def test_a_setting_that_fits_its_run_is_not_warned_of(
    toml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(toml)
    assert not check(Path("cluster.toml")).warnings


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("net = 'resnet20'", "; the zoo has 'resnet20_solver'"),
        ("net = 'mine.prototxt'", ""),
        ("net = 'lenet'", None),
        ("net = 'resnet20'\nsolver = 'resnet20_solver'", None),
    ],
)
def test_the_solver_of_a_net_without_one_is_reported(
    keys: str, text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ZOO / "lenet.prototxt", "mine.prototxt")
    data = "{ format = 'synthetic', shape = [3, 32, 32] }" if "resnet" in keys else ""
    more = f"[train.data]\ntrain = {data}\ntest = {data}\n" if data else ""
    Path("cluster.toml").write_text(f"[train]\n{keys}\n{more}")
    notes = check(Path("cluster.toml")).notes
    expected = f"train.solver is not given, so the settings of 'lenet_digits_solver' count{text}"
    found = [line for line in notes if "train.solver is not" in line]
    assert found == ([] if text is None else [f"cluster.toml:2: train.net: {expected}"])
