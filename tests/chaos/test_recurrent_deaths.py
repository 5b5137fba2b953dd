"""A run of a recurrent net in processes that loses a worker: the next run goes on from a checkpoint
with the states of all streams, and ends with the bits of one worker that was not disturbed.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from benchmarks.helpers.survivor import Survivor, events
from tests.chaos.recovering import Starts, assert_same_bits, last_checkpoint
from tests.helpers.recurrent_runs import configured
from tests.helpers.support import Simulated, train

ITERATIONS = 40
EVERY = 5  # iterations between two checkpoints
CASES = [
    (preset, workers)
    for preset in ("sync", "replicas", "omnivore", "firecaffe", "parameter-server")
    for workers in (2, 4)
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """The run of one worker without a death."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        folder = tmp_path_factory.mktemp("undisturbed")
        return train(cluster_of(folder, "single", 1, snapshot=0))


def cluster_of(folder: Path, preset: str, workers: int, snapshot: int = EVERY) -> Path:
    return configured(
        folder,
        preset,
        workers=workers,
        iterations=ITERATIONS,
        snapshot=snapshot,
        strategy="reproducible = true\n",
        more="[recovery]\nrestarts = 3\n",
    )


def workers_of(run: Survivor) -> list[str]:
    return sorted(name for name in run.pids() if name.startswith(("conv-", "replica", "worker")))


@pytest.mark.few("[sync-2]", "[replicas-2]")
@pytest.mark.parametrize(("preset", "workers"), CASES)
def test_a_run_that_loses_a_worker_ends_with_the_bits_of_one_worker(
    tmp_path: Path, undisturbed: Simulated, preset: str, workers: int, survivor: Starts
) -> None:
    generator = random.Random(f"{preset} {workers}")
    run = survivor(cluster_of(tmp_path, preset, workers))
    run.until(rf"checkpoint +iteration {EVERY * generator.randrange(1, 4)} ")
    os.kill(run.pid(generator.choice(workers_of(run))), signal.SIGKILL)
    run.until("resumes ")
    assert run.end()[0] == 0
    (resumed,) = events(run.newest, "resumed")
    assert "checkpoint" in resumed, "no worker has the states of all streams in memory"
    assert_same_bits(last_checkpoint(run.runs, ITERATIONS), undisturbed)
