"""Runs in double precision: strategies compared with one process, their checkpoints, and files of
other precisions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.presets.presets import EQUAL, STRATEGIES, apart
from benchmarks.presets.runs import DOUBLE, arrays_of
from nets.files.weights import read_weights, write_weights
from ops import Array
from runtime.cli.main import main
from tests.helpers.support import ROOT, configure, environment, train

DIGITS = {"batch": 30, "max_iter": 5, "data": {"train": {"format": "digits", "split": "train"}}}
PHOTOGRAPHS = {"format": "synthetic", "shape": [3, 32, 32], "classes": 10, "size": 40}
CIFAR_FULL = {
    "net": "cifar10_full",
    "solver": "cifar10_full_solver",
    "batch": 10,
    "max_iter": 4,
    "data": {"train": PHOTOGRAPHS},
}
NETS: dict[str, dict[str, Any]] = {"LeNet": DIGITS, "CIFAR-10 full": CIFAR_FULL}
SINGLE = {"preset": "single"}


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, Array]]:
    """The parameters trained by one process, for each net."""
    return {
        net: arrays_of({**options, **DOUBLE, "strategy": SINGLE}) for net, options in NETS.items()
    }


@pytest.mark.few(
    "[sync-LeNet]", "[firecaffe-LeNet]", "[one-weird-trick b-LeNet]", "[parameter-server-LeNet]"
)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", EQUAL)
def test_every_synchronous_preset_computes_the_same_as_one_process(
    name: str, net: str, alone: dict[str, dict[str, Array]]
) -> None:
    strategy = {**STRATEGIES[name][0], "workers": 3}
    found = arrays_of({**NETS[net], **DOUBLE, "strategy": strategy})
    expected = alone[net]
    assert found.keys() == expected.keys()
    assert {array.dtype for array in found.values()} == {np.dtype(np.float64)}
    assert apart(found, expected) <= 1e-10  # the limit for float32 is 1e-6


def test_double_precision_differs_from_float32(
    alone: dict[str, dict[str, Array]],
) -> None:
    narrow = arrays_of({**DIGITS, "precision": "exact", "strategy": SINGLE})
    assert 1e-8 < apart(narrow, alone["LeNet"]) < 1e-4


def doubled(cluster: Path, *lines: str) -> Path:
    """Change a cluster.toml to double precision, with more lines in [train]."""
    text = cluster.read_text().replace(
        'precision = "exact"', "\n".join(('precision = "double"', *lines))
    )
    cluster.write_text(text)
    return cluster


@pytest.mark.few("[adam-2]")
@pytest.mark.parametrize(
    ("preset", "workers"), [("single", 1), ("sync", 2), ("adam", 2), ("local-fc-shards", 2)]
)
def test_a_resumed_run_in_double_precision_equals_an_unbroken_one_to_the_last_bit(
    tmp_path: Path, preset: str, workers: int
) -> None:
    whole = train(doubled(configure(tmp_path / "whole", preset, workers=workers, iterations=6)))
    train(doubled(configure(tmp_path / "half", preset, workers=workers, iterations=3)))
    goes_on = 'resume = "../half/checkpoint-0000003.safetensors"'
    rest = train(
        doubled(configure(tmp_path / "rest", preset, workers=workers, iterations=6), goes_on)
    )
    for name, expected in whole.arrays.items():
        assert rest.arrays[name].dtype == np.float64
        assert rest.arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.few("[adam-resume", "[single-weights")
@pytest.mark.parametrize(("source", "target"), [("exact", "double"), ("double", "exact")])
@pytest.mark.parametrize("key", ["resume", "weights"])
@pytest.mark.parametrize("preset", ["single", "adam"])
def test_files_of_the_other_precision_become_numbers_of_this_one(
    tmp_path: Path, source: str, target: str, key: str, preset: str
) -> None:
    clusters = {}
    for name, precision, iterations in (("before", source, 1), ("after", target, 2)):
        cluster = configure(tmp_path / name, preset, iterations=iterations)
        clusters[name] = doubled(cluster) if precision == "double" else cluster
    before = train(clusters["before"])
    text = clusters["after"].read_text()
    clusters["after"].write_text(
        text.replace("seed =", f'{key} = "../before/checkpoint-0000001.safetensors"\nseed =', 1)
    )
    after = train(clusters["after"])
    assert {array.dtype.name for array in before.arrays.values()} == {
        "float64" if source == "double" else "float32"
    }
    assert {array.dtype.name for array in after.arrays.values()} == {
        "float64" if target == "double" else "float32"
    }


def test_workers_averaged_after_every_iteration_compute_the_same_as_one_process(
    alone: dict[str, dict[str, Array]],
) -> None:
    found = arrays_of({**DIGITS, **DOUBLE, "strategy": {"preset": "dl4j", "workers": 3, "tau": 1}})
    assert apart(found, alone["LeNet"]) <= 1e-10


@pytest.mark.parametrize("suffix", [".h5", ".safetensors", ".caffemodel"])
def test_weights_in_double_precision_stay_so_in_every_format(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"weights{suffix}"
    weights = {"ip": (np.array([[1 / 3, 2 / 3]]), np.array([1e-300]))}
    write_weights(file, weights)
    for found, expected in zip(read_weights(file)["ip"], weights["ip"], strict=True):
        assert found.tobytes() == expected.tobytes()


def test_a_checkpoint_in_double_precision_is_scored_and_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(doubled(configure(tmp_path, "single", iterations=2, test=True)))
    monkeypatch.chdir(tmp_path)
    said = []
    for precision in ("double", "exact"):
        setting = f"train.precision={precision}"
        assert main(["test", "checkpoint-0000002.safetensors", "--set", setting]) == 0
        assert main(["time", "--iterations", "1", "--set", setting]) == 0
        out = capsys.readouterr().out
        said.append(
            (re.search(r"accuracy (\S+)", out)[1], float(re.search(r"parameters (\S+) MB", out)[1]))
        )
    assert said[0][0] == said[1][0]
    assert said[0][1] == pytest.approx(2 * said[1][1], abs=0.1)


@pytest.mark.slow
def test_the_check_of_a_users_strategy_in_the_documentation_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "scripting.md").read_text()
    (snippet,) = [
        part.partition("```")[0]
        for part in text.split("```python\n")
        if '"double"' in part.partition("```")[0]
    ]
    (tmp_path / "check.py").write_text(snippet)
    done = subprocess.run(
        [sys.executable, "check.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 < float(done.stdout.splitlines()[-1]) < 1e-10
