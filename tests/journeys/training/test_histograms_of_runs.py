"""Histograms of a run's parameters and gradients, `run.histograms`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from roles.registry import PRESETS
from tests.helpers.support import Simulated, configure, run_directory, run_up, train

NUMBERS = {
    "conv1": {"weight": 500, "bias": 20},
    "conv2": {"weight": 25_000, "bias": 50},
    "ip1": {"weight": 400_000, "bias": 500},
    "ip2": {"weight": 5_000, "bias": 10},
}
ON = "[run]\nhistograms = 2\n"


def trained(
    directory: Path, preset: str, more: str = ON, workers: int = 2, iterations: int = 5
) -> Simulated:
    cluster = configure(
        directory, preset, workers=workers, iterations=iterations, batch=16, more=more
    )
    return train(cluster, checkpoint=False)


OWN_MODELS = ("sparknet", "dl4j", "islands")  # each worker has a model of its own


@pytest.mark.parametrize("preset", [name for name in PRESETS.names() if name not in OWN_MODELS])
def test_every_number_of_a_layer_is_in_its_histograms_once(tmp_path: Path, preset: str) -> None:
    found = trained(tmp_path, preset).journal.of("histograms")
    counted: Counter[tuple[int, str, str, str]] = Counter()
    for one in found:
        for array in one["arrays"]:
            key = (one["iteration"], one["layer"], array["name"], array["of"])
            counted[key] += sum(array["counts"]) + array["infinite"]
    expected = {
        (iteration, layer, name, of): count
        for iteration in (0, 2, 4)
        for layer, arrays in NUMBERS.items()
        for name, count in arrays.items()
        for of in ("values", "gradients")
    }
    assert {key: count for key, count in counted.items() if key[0] <= 4} == expected


@pytest.mark.parametrize("preset", OWN_MODELS)
def test_each_model_of_its_own_has_histograms(tmp_path: Path, preset: str) -> None:
    journal = trained(tmp_path, preset, iterations=16).journal
    entries = [
        (actor, fields) for _, actor, name, fields in journal.entries if name == "histograms"
    ]
    layers = Counter((actor, fields["layer"]) for actor, fields in entries)
    assert len({actor for actor, _ in layers}) == 2
    assert {layer for _, layer in layers} == set(NUMBERS)


@pytest.mark.parametrize("preset", ["omnivore", "replicas", "adam"])
def test_histograms_change_no_number_of_a_run(tmp_path: Path, preset: str) -> None:
    losses = trained(tmp_path / "on", preset).losses()
    without = trained(tmp_path / "off", preset, "")
    assert without.losses() == losses
    assert without.journal.of("histograms") == []


def test_the_first_and_the_next_histograms_are_those_of_the_checkpoints(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "single", iterations=4, batch=16, more=ON)
    whole = train(cluster)
    first = trained(tmp_path / "b", "single", iterations=7)
    (found,) = [
        one["arrays"][0]
        for one in first.journal.of("histograms")
        if one["iteration"] == 4 and one["layer"] == "conv1"
    ]
    weights = whole.arrays["conv1.0"]
    assert (found["low"], found["high"]) == pytest.approx((weights.min(), weights.max()), rel=1e-6)
    assert found["deviation"] == pytest.approx(weights.std(), rel=1e-5)


@pytest.mark.slow
def test_a_run_of_processes_keeps_its_histograms_in_a_file_and_not_in_the_journal(
    tmp_path: Path,
) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, iterations=6, batch=16, more=ON)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    lines = (directory / "histograms.jsonl").read_text().splitlines()
    assert len(lines) == 3 * len(NUMBERS)
    assert '"histograms"' not in (directory / "events.jsonl").read_text()
    assert "histograms" not in done.stdout
