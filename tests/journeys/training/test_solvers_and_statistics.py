"""Settings of a solver file in a run: the type of solver and clipping. Running statistics too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nets.definition.spec import ZOO
from roles.planning.strategies import PRESETS
from roles.presets.request import Preset
from runtime.errors import ConfigError
from runtime.runs.checking import check
from tests.helpers.support import Simulated, configure, train

BATCH_NORM = """
layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param { moving_average_fraction: 0.5 } }
layer { name: "scale" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
"""
LENET = (ZOO / "lenet.prototxt").read_text()
MARKER = 'layer {\n  name: "pool1"'

DATA = 'layer { name: "d" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } }'
DENSE = """
layer { name: "ip" type: "InnerProduct" bottom: "%s" top: "ip" inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
RECURRENT = """
layer { name: "cont" type: "Reshape" bottom: "label" top: "cont" reshape_param { shape { dim: 0 dim: 1 } } }
layer { name: "lstm" type: "LSTM" bottom: "data" bottom: "cont" top: "lstm" recurrent_param { num_output: 3 } }
"""


def run(
    directory: Path, preset: str, *, solver: str = "", batch: int = 8, net: str = "", **options: int
) -> Simulated:
    """Train LeNet (or `net`) for a few iterations with `solver` added to the solver file."""
    cluster = configure(directory, preset, **{"iterations": 3, "batch": batch, **options})
    file = directory / "solver.prototxt"
    text = file.read_text()
    for given in ("momentum: 0.9", "weight_decay: 0.0005"):
        text = text.replace(given, "") if given.split(":")[0] in solver else text
    file.write_text(text + solver)
    if net:
        (directory / "own.prototxt").write_text(net)
        cluster.write_text(
            cluster.read_text().replace("[train]\n", '[train]\nnet = "own.prototxt"\n', 1)
        )
    return train(cluster)


def named(fits: Callable[[Preset], bool]) -> str:
    """The presets for which `fits` is true, as a sentence names them."""
    *first, last = (f"'{name}'" for name, preset in PRESETS.items() if fits(preset))
    return f"{', '.join(first)} and {last}"


def same(a: Simulated, b: Simulated) -> bool:
    assert a.arrays.keys() == b.arrays.keys()
    return all(np.array_equal(array, b.arrays[name]) for name, array in a.arrays.items())


ADAM = 'type: "Adam" momentum: 0.9 momentum2: 0.99'


def test_adam_trains_over_workers_as_in_one_process_and_resumes_to_the_last_bit(
    tmp_path: Path,
) -> None:
    whole = run(tmp_path / "whole", "single", solver=ADAM, iterations=4)
    assert {name for name in whole.arrays if name.startswith("ip1.0")} == {
        "ip1.0",
        "ip1.0.history",
        "ip1.0.history2",
    }
    apart = run(tmp_path / "apart", "sync", workers=2, solver=ADAM, iterations=4)
    assert apart.losses() == pytest.approx(whole.losses(), rel=1e-3)
    run(tmp_path / "half", "single", solver=ADAM, iterations=2)
    cluster = configure(tmp_path / "rest", "single", iterations=4, batch=8)
    solver = cluster.with_name("solver.prototxt")
    solver.write_text(solver.read_text().replace("momentum: 0.9", "") + ADAM)
    more = '[train]\nresume = "../half/checkpoint-0000002.safetensors"\n'
    cluster.write_text(cluster.read_text().replace("[train]\n", more, 1))
    assert same(train(cluster), whole)


def test_gradients_are_clipped_by_their_common_norm_if_one_process_knows_it(
    tmp_path: Path,
) -> None:
    free = run(tmp_path / "free", "single", iterations=1, solver="weight_decay: 0").arrays
    tight = run(
        tmp_path / "tight", "single", iterations=1, solver="weight_decay: 0 clip_gradients: 0.25"
    ).arrays
    ratios = [
        np.linalg.norm(tight[name]) / np.linalg.norm(free[name])
        for name in free
        if name.endswith("0.history")
    ]
    assert max(ratios) < 1
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-4)
    mults = {"0": 1.0, "1": 2.0}  # LeNet's biases learn twice as fast
    steps = (
        array / mults[name.split(".")[1]]
        for name, array in tight.items()
        if name.endswith("history")
    )
    norm = np.sqrt(sum(float((step.astype(float) ** 2).sum()) for step in steps)) / 0.01
    assert norm == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"net": DATA + DENSE % "data"},
            "train.strategy.preset: found a net without a conv phase that learns (own): "
            f"only presets {named(lambda preset: preset.part == 'all')} train it",
        ),
        (
            {"net": DATA + RECURRENT + DENSE % "lstm"},
            "train.strategy.preset: found a net with recurrent layers, whose rows are steps "
            "of time: "
            "only preset 'single' trains it",
        ),
    ],
)
def test_settings_impossible_with_a_divided_net_are_refused_before_anything_starts(
    tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        run(tmp_path, "sync", workers=2, **options)
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


@pytest.mark.parametrize("net", [DATA + DENSE % "data", DATA + RECURRENT + DENSE % "lstm"])
def test_nets_that_cannot_be_divided_train_in_one_process(tmp_path: Path, net: str) -> None:
    assert len(run(tmp_path, "single", net=net).losses()) == 3


def test_replicas_train_a_net_without_a_conv_phase_and_clip_by_the_norm_of_the_whole_batch(
    tmp_path: Path,
) -> None:
    options = {"net": DATA + DENSE % "data", "solver": "clip_gradients: 0.05"}
    alone = run(tmp_path / "alone", "single", **options)
    free = run(tmp_path / "free", "single", net=options["net"])
    three = run(tmp_path / "three", "replicas", workers=3, **options)
    for name, expected in alone.arrays.items():
        np.testing.assert_allclose(three.arrays[name], expected, rtol=1e-4, atol=1e-6)
    assert not same(alone, free)  # the norm was above the limit, so the comparison means something


def test_running_statistics_survive_a_distributed_run(tmp_path: Path) -> None:
    net = LENET.replace(MARKER, BATCH_NORM + MARKER, 1)
    alone = run(tmp_path / "alone", "single", net=net)
    one = run(tmp_path / "one", "sync", workers=1, net=net)
    assert same(alone, one)
    two = run(tmp_path / "two", "sync", workers=2, net=net)
    assert two.arrays["bn.2"] == one.arrays["bn.2"] == 1.75  # 1 + 1/2 + 1/4
    np.testing.assert_allclose(two.arrays["bn.0"], one.arrays["bn.0"], rtol=0.05, atol=0.02)
    np.testing.assert_allclose(two.arrays["bn.1"], one.arrays["bn.1"], rtol=0.3)
    assert not [name for name in two.arrays if name.startswith("bn.") and "history" in name]


@pytest.mark.parametrize("layer", [BATCH_NORM, ""])
def test_a_net_without_statistics_is_not_tested_before_its_first_iteration(
    tmp_path: Path, layer: str
) -> None:
    net = LENET.replace(MARKER, layer + MARKER)
    solver = "test_interval: 2 test_iter: 1"
    found = run(tmp_path, "single", solver=solver, iterations=4, net=net, test=True)
    tested = [fields["iteration"] for fields in found.journal.of("test")]
    assert tested == ([2, 4] if layer else [0, 2, 4])
    assert all(np.isfinite(fields["loss"]) for fields in found.journal.of("test"))
    file = tmp_path / "cluster.toml"
    expected = "train.solver: nothing is tested before the first iteration, since layer 'bn' has no"
    assert any(expected in line for line in check(file).notes) is bool(layer)
    saved = found.journal.of("checkpoint")[-1]["file"]
    assert not any(expected in line for line in check(file, [f"train.weights={saved}"]).notes)
