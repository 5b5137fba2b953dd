"""Runs that try cuDNN: real processes, real CuPy on the stand-in for CUDA, and a stand-in for
cuDNN's frontend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fake_cudnn import HERE
from tests.gpu.test_training import ITERATIONS, TWO, equals_single, placed, trained
from tests.helpers.support import Simulated, configure, events, train

# tests/ops/test_cudnn.py has the quick tests
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
BATCH = 24  # a test over the 359 digits has three batches of the first size and a smaller rest
TESTED = (100, 59)


def tried(
    folder: Path,
    stand_in: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    how: str,
    fault: str = "",
    **options: object,
) -> Path:
    """Train on the stand-ins with `train.cudnn = how`. Returns the run directory."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("FAKE_CUDNN", fault)
    preset = str(options.pop("preset"))
    made = configure(folder, preset, iterations=ITERATIONS, batch=BATCH, test=True, **options)  # type: ignore[arg-type]
    cluster = placed(made, '{ "*" = "cuda:1" }' if preset == "single" else TWO)
    cluster.write_text(cluster.read_text().replace("[train]\n", f'[train]\ncudnn = "{how}"\n'))
    return trained(cluster, stand_in, monkeypatch, devices=2)


def lines(directory: Path) -> list[tuple[str, str]]:
    """The lines about cuDNN in the logs of the run's processes: the pass with its shape, and its
    outcome."""
    logs = "".join(path.read_text() for path in sorted(directory.rglob("*.log")))
    return re.findall(r"ops\.cudnn cuDNN, (.*?): (.*)", logs)


TRAINING = [  # The passes of LeNet's training. The gradient of the images is not needed.
    "backward-data of {}x20x12x12 -> 50 by 5x5",
    "backward-weights of {}x1x28x28 -> 20 by 5x5",
    "backward-weights of {}x20x12x12 -> 50 by 5x5",
    "forward of {}x1x28x28 -> 20 by 5x5 with bias",
    "forward of {}x20x12x12 -> 50 by 5x5 with bias",
]


@pytest.fixture
def on_cpu(tmp_path: Path) -> Simulated:
    return train(
        configure(tmp_path / "cpu", "single", iterations=ITERATIONS, batch=BATCH, test=True)
    )


def accuracy(found: Sequence[dict[str, Any]]) -> float:
    """The accuracy of the last test."""
    return float(found[-1]["accuracy"])


def test_right_plans_are_taken_and_train_the_same_model_as_the_cpu(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cpu: Simulated
) -> None:
    directory = tried(
        tmp_path / "device",
        stand_in,
        monkeypatch,
        how="deterministic",
        preset="replicas",
        workers=2,
    )
    equals_single(directory, on_cpu.arrays)
    assert accuracy(events(directory, "test")) == pytest.approx(
        accuracy(on_cpu.journal.of("test")), abs=1e-6
    )
    found = lines(directory)
    assert {result.partition(",")[0] for _, result in found} == {"taken"}
    # for a replica's number of rows; while it is warmed up, it tries no other number
    each = [name.format(BATCH // 2) for name in TRAINING]
    each += [name.format(TESTED[0] // 2) for name in TRAINING[3:]]
    # tried when they first occur
    rest = [name.format(rows) for rows in (29, 30) for name in TRAINING[3:]]
    assert sorted(name for name, _ in found) == sorted(each * 2 + rest)


FAULTS = {
    "wrong": ("of the greatest value, expected at most 1e-04; lowered", 2),
    "lacking": ("no plan that runs (cudnnGraphNotSupportedError: No valid engine configs", 2),
    "slow": ("ms; lowering ", 1),  # the measured times also decide for other numbers of images
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_rejected_plan_is_logged_once_and_training_continues(
    fault: str, stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cpu: Simulated
) -> None:
    directory = tried(
        tmp_path / "device", stand_in, monkeypatch, how="fastest", fault=fault, preset="single"
    )
    equals_single(directory, on_cpu.arrays)
    assert accuracy(events(directory, "test")) == pytest.approx(
        accuracy(on_cpu.journal.of("test")), abs=1e-6
    )
    told, phases = FAULTS[fault]
    found = lines(directory)
    warned = [event["text"] for event in events(directory, "warning")]
    expected = [name.format(BATCH) for name in TRAINING]
    expected += [name.format(rows) for rows in TESTED for name in TRAINING[3:] if phases == 2]
    assert sorted(name for name, _ in found) == sorted(expected)
    assert all(told in result for _, result in found)
    assert sum("cuDNN, " in text for text in warned) == (0 if fault == "slow" else len(expected))


def test_a_plan_that_holds_the_interpreters_lock_beyond_the_liveness_limit_is_not_a_death(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cpu: Simulated
) -> None:
    silent = "[liveness]\nheartbeat_seconds = 0.1\n"  # a process may be silent for one second
    # First in training, before the first iteration. Then in tests, for their last rows, in the
    # midst of the run.
    fault = "holding conv_fprop"
    directory = tried(
        tmp_path / "device",
        stand_in,
        monkeypatch,
        how="deterministic",
        fault=fault,
        preset="single",
        more=silent,
    )
    equals_single(directory, on_cpu.arrays)
    assert {result.partition(",")[0] for _, result in lines(directory)} == {"taken"}


def test_without_the_package_one_line_for_all_processes_names_the_extra(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cpu: Simulated
) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "cudnn.py").write_text("raise ModuleNotFoundError(\"No module named 'cudnn'\")")
    monkeypatch.setattr("tests.gpu.test_cudnn.HERE", missing)
    directory = tried(
        tmp_path / "device", stand_in, monkeypatch, how="fastest", preset="replicas", workers=2
    )
    equals_single(directory, on_cpu.arrays)
    (told,) = [event["text"] for event in events(directory, "warning")]
    assert "install the extra 'cudnn'" in told and not lines(directory)
