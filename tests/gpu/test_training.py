"""Whole runs of every preset on the devices of the stand-in: real processes, real CuPy, two
devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.files import checkpoint
from roles.planning.strategies import PRESETS
from tests.fake_cuda.processes import on_fake_cuda
from tests.helpers.added_layers import OF_TODAY
from tests.helpers.fc_shards import configured
from tests.helpers.support import configure, events, run_directory, run_up, train

EQUAL = tuple(name for name in PRESETS if PRESETS[name].equals_single)
# the model of these presets depends on the order in which messages arrive
LEARNING = tuple(name for name in PRESETS if name not in EQUAL)
ITERATIONS = 8
TWO = '{ "*-0" = "cuda:0", "*" = "cuda:1" }'


def placed(cluster: Path, devices: str) -> Path:
    """The same cluster.toml with a setting of `devices` in [train]."""
    cluster.write_text(cluster.read_text().replace("[train]\n", f"[train]\ndevices = {devices}\n"))
    return cluster


def trained(
    cluster: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch, **settings: object
) -> Path:
    """Run `up` on the stand-in to a good end. Returns the run directory."""
    for name, value in on_fake_cuda(stand_in, **settings).items():
        monkeypatch.setenv(name, value)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    return run_directory(cluster)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The parameters that one worker on the CPU has trained."""
    return train(configure(tmp_path_factory.mktemp("cpu"), "single", iterations=ITERATIONS)).arrays


def equals_single(
    directory: Path, reference: dict[str, np.ndarray], tolerance: float = 1e-5
) -> None:
    """Check every parameter and its momentum, relative to the largest number."""
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    assert arrays.keys() == reference.keys()
    for name, expected in reference.items():
        assert np.abs(arrays[name] - expected).max() <= tolerance * np.abs(expected).max(), name


@pytest.mark.few("[replicas]")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("preset", EQUAL)
def test_a_preset_that_equals_single_does_so_on_two_devices(
    preset: str,
    single: dict[str, np.ndarray],
    stand_in: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = configure(tmp_path / "device", preset, workers=2, iterations=ITERATIONS)
    devices = '{ "*" = "cuda:1" }' if preset == "single" else TWO
    directory = trained(placed(cluster, devices), stand_in, monkeypatch, devices=2)
    equals_single(directory, single)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_layers_that_caffe_lacks_train_on_two_devices_as_on_the_cpu(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"batch": 20, "net": OF_TODAY, "iterations": ITERATIONS}
    expected = train(configured(tmp_path / "cpu", "single", **options)).arrays
    cluster = configured(tmp_path / "device", "replicas", workers=2, **options)
    equals_single(trained(placed(cluster, TWO), stand_in, monkeypatch, devices=2), expected, 1e-4)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("preset", LEARNING)
def test_every_other_preset_learns_as_well_on_two_devices_as_on_the_cpu(
    preset: str, stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # each of two islands sees half of the images that the others' one model sees
    iterations = 80 if preset == "islands" else 40
    options = {"workers": 2, "groups": 2, "iterations": iterations, "test": True}
    expected = train(configure(tmp_path / "cpu", preset, **options)).journal.of("test")[-1][
        "accuracy"
    ]
    cluster = placed(configure(tmp_path / "device", preset, **options), TWO)
    found = events(trained(cluster, stand_in, monkeypatch, devices=2), "test")[-1]["accuracy"]
    assert expected > 0.6  # it has learnt, so the comparison means something
    # the accuracy of one order of gradients; the other run has another order
    assert found == pytest.approx(expected, abs=0.2)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_worker_and_the_fc_server_share_a_device(
    single: dict[str, np.ndarray], stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = configure(tmp_path / "device", "sync", workers=2, iterations=ITERATIONS)
    directory = trained(
        placed(cluster, ('{ "conv-0-0" = "cuda:0", "fc_server" = "cuda:0" }')),
        stand_in,
        monkeypatch,
    )
    equals_single(directory, single)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_cpu_and_a_gpu_in_one_group_get_rows_by_their_throughput(
    single: dict[str, np.ndarray], stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = configure(tmp_path / "device", "sync", workers=2, iterations=ITERATIONS)
    cluster.write_text(cluster.read_text() + 'shares = "throughput"\n')
    directory = trained(placed(cluster, '{ "conv-0-0" = "cuda:0" }'), stand_in, monkeypatch)
    equals_single(directory, single)
    assert events(directory, "finished")[-1]["iterations"] == ITERATIONS
    where = re.findall(r'"device": "(cpu|cuda:0)"', (directory / "plan.json").read_text())
    assert {*where} == {"cpu", "cuda:0"}
