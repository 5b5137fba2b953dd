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

# tests/ops/test_cudnn.py has the quick ones
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
BATCH = 24  # a test of the 359 digits has three batches of the first size, and the rest
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
    """The directory of a run on the stand-ins, whose `train.cudnn` is `how`."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("FAKE_CUDNN", fault)
    preset = str(options.pop("preset"))
    made = configure(folder, preset, iterations=ITERATIONS, batch=BATCH, test=True, **options)  # type: ignore[arg-type]
    cluster = placed(made, '{ "*" = "cuda:1" }' if preset == "single" else TWO)
    cluster.write_text(cluster.read_text().replace("[train]\n", f'[train]\ncudnn = "{how}"\n'))
    return trained(cluster, stand_in, monkeypatch, devices=2)


def lines(directory: Path) -> list[tuple[str, str]]:
    """What its processes' logs say of cuDNN: the pass and its shape, and what became of it."""
    logs = "".join(path.read_text() for path in sorted(directory.rglob("*.log")))
    return re.findall(r"ops\.cudnn cuDNN, (.*?): (.*)", logs)


TRAINING = [  # passes of LeNet: nobody asks for the gradient of images
    "backward-data of {}x20x12x12 -> 50 by 5x5",
    "backward-weights of {}x1x28x28 -> 20 by 5x5",
    "backward-weights of {}x20x12x12 -> 50 by 5x5",
    "forward of {}x1x28x28 -> 20 by 5x5",
    "forward of {}x20x12x12 -> 50 by 5x5",
]


@pytest.fixture
def on_cpu(tmp_path: Path) -> Simulated:
    return train(
        configure(tmp_path / "cpu", "single", iterations=ITERATIONS, batch=BATCH, test=True)
    )


def accuracy(found: Sequence[dict[str, Any]]) -> float:
    """That of the last test."""
    return float(found[-1]["accuracy"])


def test_right_plans_are_taken_and_train_what_the_cpu_trains(
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
    # of a replica's rows; it tries no others while it is warmed
    each = [name.format(BATCH // 2) for name in TRAINING]
    each += [name.format(TESTED[0] // 2) for name in TRAINING[3:]]
    rest = [name.format(rows) for rows in (29, 30) for name in TRAINING[3:]]  # when they come up
    assert sorted(name for name, _ in found) == sorted(each * 2 + rest)


FAULTS = {
    "wrong": (
        ("differs from lowering by 1.0e-02 of the greatest value, expected at most 1e-04; lowered"),
        2,
    ),
    "lacking": ("no plan that runs (cudnnGraphNotSupportedError: No valid engine configs", 2),
    "slow": ("ms, lowering", 1),  # what was timed counts for other numbers of images
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_taken_is_told_once_and_training_goes_on(
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


def test_plans_that_hold_the_interpreters_lock_for_longer_than_a_process_may_be_silent_are_no_death(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cpu: Simulated
) -> None:
    silent = "[liveness]\nheartbeat_seconds = 0.1\n"  # for one second
    # of training before the first iteration, of tests' last rows in the midst of the run
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
