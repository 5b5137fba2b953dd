"""`up --test` of a run that was scaled or healed: it scores the last checkpoint of its last run."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.helpers.survivor import Survivor, events
from runtime import attach
from tests.helpers.support import configure


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Survivor]:
    cluster = configure(
        tmp_path, "replicas", workers=2, iterations=40, test=True, more="[recovery]\nrestarts = 1\n"
    )
    started = Survivor(cluster, more=["--test"])
    yield started
    started.stop()


def scored_by_the_run(directory: Path) -> float:
    """The accuracy that the run's own workers found at its end."""
    return float(events(directory, "test")[-1]["accuracy"])


def score_told(run: Survivor) -> tuple[str, float]:
    """The file that `up` scored at its end, and the accuracy."""
    file = run.until("test +runs/").split()[1]
    return file, float(run.until("accuracy ").split()[1])


@pytest.mark.slow  # two runs: 10 s
def test_a_run_that_was_scaled_is_scored_once_by_its_last_checkpoint(run: Survivor) -> None:
    run.until(r"progress +iteration 5/")
    first = run.newest

    async def scale() -> str:
        async with attach(first) as client:
            return (await client.scale(workers=3)).run

    last = asyncio.run(scale())
    file, accuracy = score_told(run)
    assert run.end()[0] == 0
    assert file == f"runs/{last}/checkpoint-0000040.safetensors" and last != first.name
    assert accuracy == pytest.approx(scored_by_the_run(run.newest), abs=1e-4)
    assert len(re.findall("^test +runs/", run.said(), re.MULTILINE)) == 1


@pytest.mark.slow
def test_a_run_that_was_healed_is_scored_by_its_last_checkpoint(run: Survivor) -> None:
    run.until(r"progress +iteration 5/")
    os.kill(run.pid("replica-1"), signal.SIGKILL)
    run.until("healed ")
    file, accuracy = score_told(run)
    assert run.end()[0] == 0
    assert file == f"runs/{run.newest.name}/checkpoint-0000040.safetensors"
    assert accuracy == pytest.approx(scored_by_the_run(run.newest), abs=1e-4)
