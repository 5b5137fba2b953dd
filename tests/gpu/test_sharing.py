"""Two workers on one device: arrays stay there, in one process and between processes. Without shared
memory on the device, each is copied to the host once if its readers live in other processes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nets.files import checkpoint
from roles.exchange.buckets import BUCKET_BYTES
from tests.fake_cuda.processes import command, on_fake_cuda
from tests.gpu.test_training import placed
from tests.helpers.support import configure, events, run_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

BY_HOST = "[links]\ndevice_memory = false\n"
TOGETHER = '[placement]\nprocesses = "per-device"\n'
BATCH = 16
FEW, MANY = 2, 6  # iterations
# LeNet's parameters in bytes: of the conv phase, and all of them
CONV = 4 * (20 * 25 + 20 + 50 * 20 * 25 + 50)
ALL = CONV + 4 * (500 * 800 + 500 + 10 * 500 + 10)
ACROSS = BATCH * 4 * 800  # activations of a batch, or their gradients
SMALL = 1 << 14  # bytes of scores, labels and samples of gradients in an iteration
# bytes of the arrays that other actors get in an iteration, each counted once
SHARED = {
    "replicas": 2 * ALL,  # the gradients of two workers
    "host-accumulate": 2 * ALL,
    "sync": 3 * CONV + 2 * ACROSS,  # two gradients, one new version of the model
    "omnivore": 2 * CONV + 2 * ACROSS,  # an iteration is a batch of one group, which has one worker
}
GROUPS = {"omnivore": 2}


def run(
    folder: Path, stand_in: Path, preset: str, iterations: int, more: str
) -> tuple[Counter[str], Path]:
    """Train on one device. Returns the counts of all processes together, and the run directory."""
    cluster = configure(
        folder / "run",
        preset,
        workers=2,
        groups=GROUPS.get(preset, 1),
        iterations=iterations,
        batch=BATCH,
        more=more,
    )
    placed(cluster, '{ "*" = "cuda:0" }')
    counts = folder / "counts"
    counts.mkdir(parents=True)
    words = ["-m", "tests.gpu.counted", str(counts), cluster.name]
    done = command(words, on_fake_cuda(stand_in), cwd=cluster.parent)
    assert done.returncode == 0, done.stderr
    total: Counter[str] = Counter()
    for file in counts.iterdir():
        total.update(json.loads(file.read_text()))
    assert total["launches"] > 0
    return total, run_directory(cluster)


def one_iteration(
    folder: Path, stand_in: Path, preset: str, more: str = ""
) -> tuple[dict[str, float], Path]:
    """The counts of an iteration: the difference of a run of MANY and a run of FEW. Also returns
    the directory of the longer run."""
    few, _ = run(folder / "few", stand_in, preset, FEW, more)
    many, directory = run(folder / "many", stand_in, preset, MANY, more)
    return {what: (many[what] - few[what]) / (MANY - FEW) for what in many}, directory


def arrays_of(directory: Path) -> dict[str, np.ndarray]:
    """The arrays of the run's last checkpoint."""
    return checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])[0]


@pytest.mark.parametrize("preset", SHARED)
def test_arrays_stay_on_the_device_or_are_copied_to_the_host_once_with_the_same_bits(
    preset: str, stand_in: Path, tmp_path: Path
) -> None:
    shared, first = one_iteration(tmp_path / "shared", stand_in, preset)
    apart, one = one_iteration(tmp_path / "apart", stand_in, preset, BY_HOST)
    together, other = one_iteration(tmp_path / "together", stand_in, preset, TOGETHER)
    # a group may have begun one pass more when a run ends; an array that is copied twice is more
    begun = GROUPS[preset] * SHARED[preset] / (MANY - FEW) if preset in GROUPS else 0
    assert -begun <= apart["bytes_to_host"] - SHARED[preset] < SMALL + begun, apart
    assert together["bytes_to_host"] < SMALL, together
    assert shared["bytes_to_host"] < SMALL, shared
    assert apart["framed"] < SMALL and together["framed"] == 0, (apart, together)
    assert shared["framed"] == 0, shared
    if preset in GROUPS:
        return  # its model depends on the order in which messages arrive
    expected = arrays_of(one)
    for directory in (first, other):
        found = arrays_of(directory)
        for name, array in expected.items():
            assert found[name].tobytes() == array.tobytes(), name


def test_the_exchange_at_the_host_copies_each_bucket_while_later_ones_are_computed(
    stand_in: Path, tmp_path: Path
) -> None:
    found, _ = one_iteration(tmp_path, stand_in, "host-accumulate", BY_HOST)
    assert 4 * 500 * 800 > BUCKET_BYTES > CONV
    # two buckets and two scores of each worker
    assert found["copies_to_host"] == 2 * (2 + 2)
