"""Deaths in runs whose actors share one device: the run goes on as on the CPU, and the memory of
the device is given back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.helpers.survivor import Survivor
from tests.fake_cuda.processes import TIMEOUT, on_fake_cuda
from tests.gpu.test_sharing import TOGETHER
from tests.gpu.test_training import equals_single, placed
from tests.helpers.support import configure, train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ITERATIONS = 24
MEMORY = "/memfd:fake_cuda memory"  # the name of the stand-in's memory of a device
RECOVERS = "[recovery]\nrestarts = 2\n"


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The parameters that one worker on the CPU has trained without a death."""
    return train(configure(tmp_path_factory.mktemp("cpu"), "single", iterations=ITERATIONS)).arrays


@pytest.fixture
def started(stand_in: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Survivor]:
    """A run of two workers on one device that has trained five iterations."""
    preset, more = request.param
    cluster = configure(tmp_path, preset, workers=2, iterations=ITERATIONS, more=RECOVERS + more)
    run = Survivor(placed(cluster, '{ "*" = "cuda:0" }'), on_fake_cuda(stand_in))
    try:
        run.until("progress +iteration 5/", TIMEOUT)
        yield run
    finally:
        run.stop()


def mapped(pids: Iterable[int]) -> set[str]:
    """The files of device memory that these processes have mapped: their own, and those of peers.
    A file is gone when no process has it."""
    return {
        fields[4]
        for pid in pids
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
        if MEMORY in line and (fields := line.split())
    }


@pytest.mark.parametrize(
    ("started", "victim"),
    [
        (("sync", ""), "conv-0-0"),
        (("sync", ""), "conv_model"),
        (("host-accumulate", ""), "accumulator"),
        (("replicas", ""), "replica-0"),
        (("sync", TOGETHER), "cuda-0"),
    ],
    ids=["worker", "model server", "accumulator", "replica", "all of the device"],
    indirect=["started"],
)
def test_after_a_death_the_run_ends_as_on_the_cpu_and_no_process_keeps_memory_of_the_dead_one(
    started: Survivor, victim: str, single: dict[str, np.ndarray]
) -> None:
    pids = started.pids()
    lost = mapped([pids[victim]])
    assert lost
    os.kill(pids[victim], signal.SIGKILL)
    started.until("restart ", TIMEOUT)
    started.until("progress ", TIMEOUT)
    # the processes of the run that goes on have memory of their own, and none of the run before
    kept = mapped(started.pids().values())
    assert kept
    assert not lost & kept
    code, said = started.end(TIMEOUT)
    assert code == 0, said
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())
    equals_single(started.newest, single, 1e-3)
