"""Runs whose passes are graphs and that another run continues, after a death or with another number
of workers: their models are those of plain runs, bit by bit."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from nets.files import checkpoint
from tests.chaos.running import Running
from tests.fake_cuda.processes import command, on_fake_cuda
from tests.gpu.small_runs import ONE, written
from tests.gpu.test_training import TWO
from tests.helpers.support import events, run_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ITERATIONS = 80
AT = 15  # the iteration after which a run is disturbed: its passes are replayed


def model(directory: Path) -> dict[str, bytes]:
    """The parameters and histories that a run has saved last."""
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    return {name: array.tobytes() for name, array in arrays.items()}


def plain(
    folder: Path, stand_in: Path, preset: str, iterations: int, *lines: str, workers: int = 2
) -> Path:
    """Train plainly. Returns the run directory."""
    cluster = written(folder, preset, "plain", iterations, *lines, workers=workers)
    done = command(["-m", "runtime", "up", cluster.name], on_fake_cuda(stand_in), cwd=folder)
    assert done.returncode == 0, done.stderr
    return run_directory(cluster)


def graphs(cluster: Path, stand_in: Path) -> Running:
    """A run in the middle."""

    def replayed(line: str) -> bool:
        found = re.match(r"progress +iteration (\d+)/", line)
        return found is not None and int(found[1]) >= AT

    return Running(cluster, replayed, on_fake_cuda(stand_in, devices=2, seed=3))


def is_replayed(directory: Path) -> bool:
    """Whether the processes of a run have launched their passes as graphs."""
    logs = "".join(path.read_text() for path in directory.rglob("*.log"))
    assert "train.gpu_step: steps are" not in logs
    return re.search(r"train\.gpu_step: passes of \d+ rows are replayed", logs) is not None


@pytest.mark.parametrize(
    ("preset", "devices"), [("replicas", ONE), ("sync", TWO)], ids=["replicas", "sync"]
)
def test_a_run_that_goes_on_after_a_death_has_the_model_of_one_that_did_not_die(
    preset: str, devices: str, stand_in: Path, tmp_path: Path
) -> None:
    expected = model(plain(tmp_path / "plain", stand_in, preset, ITERATIONS))
    cluster = written(
        tmp_path / "graph", preset, "graph", ITERATIONS,
        devices=devices, more="[recovery]\nrestarts = 2\n",
    )  # fmt: skip
    solver = cluster.parent / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", "snapshot: 5"))
    running = graphs(cluster, stand_in)
    try:
        first = run_directory(cluster)
        os.kill(next(pid for name, pid in running.pids.items() if "0" in name), signal.SIGKILL)
        code, said = running.finish(300)
    finally:
        running.end()
    assert code == 0, said
    second = run_directory(cluster)
    assert second != first and is_replayed(first) and is_replayed(second)
    (resumed,) = events(second, "resumed")
    assert 0 < resumed["iteration"] < ITERATIONS
    assert model(second) == expected


def test_a_run_that_is_scaled_has_the_model_of_plain_runs_of_both_sizes(
    stand_in: Path, tmp_path: Path
) -> None:
    cluster = written(tmp_path / "graph", "sync", "graph", ITERATIONS)
    running = graphs(cluster, stand_in)
    try:
        first = run_directory(cluster)
        words = ["-m", "runtime", "scale", str(first), "--workers", "3"]
        scaled = command(words, on_fake_cuda(stand_in), cwd=cluster.parent)
        assert scaled.returncode == 0, scaled.stdout + scaled.stderr
        code, said = running.finish(300)
    finally:
        running.end()
    assert code == 0, said
    second = run_directory(cluster)
    assert second != first and is_replayed(first) and is_replayed(second)
    (resumed,) = events(second, "resumed")
    at = resumed["iteration"]
    assert AT <= at < ITERATIONS
    two = plain(tmp_path / "two", stand_in, "sync", at)
    assert model(two) == model(first)
    file = two / events(two, "checkpoint")[-1]["file"]
    line = f'resume = "{file}"\n'
    three = plain(tmp_path / "three", stand_in, "sync", ITERATIONS, line, workers=3)
    assert model(three) == model(second)
