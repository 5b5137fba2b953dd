"""A run with AdamW, a cosine and averages of the weights that loses a process, or is scaled, ends
with the bits of an undisturbed run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.chaos.recovering import Starts, assert_same_bits, cluster_of, last_checkpoint
from tests.chaos.test_scaling import scaled
from tests.helpers.recipe_runs import of_today
from tests.helpers.support import Simulated, train

ITERATIONS = 24
DEATHS = [  # preset, workers, further settings, and the process that is killed
    ("single", 1, "", "single"),
    ("sync", 2, "", "conv_model"),
    ("replicas", 4, "", "replica-"),
    ("firecaffe", 4, "", "replica-"),
    ("parameter-server", 2, "", "model-"),
    ("omnivore", 2, "groups = 1\n", "conv-0-"),
    ("omnivore", 4, "groups = 1\n", "fc_server"),
]
SECTIONS = """[train.optimizer]
type = "AdamW"
weight_decay = 0.05
decays = "weights"
[train.schedule]
type = "cosine"
warmup = 3
[train.ema]
decay = 0.75
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Today's recipe in one process, without a death."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        folder = tmp_path_factory.mktemp("undisturbed") / "single"
        return train(of_today(folder, "single", iterations=ITERATIONS))


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "workers", "strategy", "victim"), DEATHS)
def test_todays_recipe_ends_with_the_bits_of_one_process_over_a_kill(
    tmp_path: Path,
    undisturbed: Simulated,
    preset: str,
    workers: int,
    strategy: str,
    victim: str,
    survivor: Starts,
) -> None:
    run = survivor(
        of_today(
            tmp_path / "killed",
            preset,
            workers,
            strategy,
            iterations=ITERATIONS,
            checkpoint="epochs = 2.0",
            top="[recovery]\nrestarts = 3\n",
        )
    )
    run.until(r"progress +iteration 1[0-9]/")
    (name, *_) = sorted(name for name in run.pids() if name.startswith(victim))
    os.kill(run.pid(name), signal.SIGKILL)
    run.until("resumes +")
    code, said = run.end()
    assert (code, "Traceback" in said) == (0, False), said
    assert_same_bits(last_checkpoint(run.runs, ITERATIONS), undisturbed)


@pytest.mark.slow
def test_a_scaled_run_keeps_the_bits_of_averages_and_histories(
    tmp_path: Path, survivor: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")
    much = {"iterations": 40, "every": 0}
    expected = train(cluster_of(tmp_path / "undisturbed", "sync", 0, SECTIONS, **much))
    run = survivor(cluster_of(tmp_path / "scaled", "sync", 0, SECTIONS, **much))
    run.until(r"progress +iteration \d+/")
    scaled(run, workers=4)
    run.until("scaled +workers 4")
    run.until("finished ")
    assert run.end()[0] == 0
    assert_same_bits(last_checkpoint(run.runs, 40), expected)
