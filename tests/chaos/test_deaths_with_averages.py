"""A run with AdamW, a cosine and averages of the weights that loses a process, or is scaled, ends
with the bits of an undisturbed run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.chaos.recovering import Starts, assert_same_bits, cluster_of, last_checkpoint
from tests.chaos.test_scaling import scaled
from tests.helpers.support import train

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


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "victim"), [("replicas", "replica-"), ("sync", "conv-0-")])
def test_a_killed_process_changes_no_bit_of_averages_and_histories(
    tmp_path: Path,
    preset: str,
    victim: str,
    survivor: Starts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")
    expected = train(cluster_of(tmp_path / "undisturbed", preset, 0, SECTIONS))
    run = survivor(cluster_of(tmp_path / "killed", preset, 3, SECTIONS))
    run.until(r"progress +iteration (1[0-9])/")
    names = sorted(name for name in run.pids() if name.startswith(victim))
    os.kill(run.pid(names[0]), signal.SIGKILL)
    run.until("resumes +")
    assert run.end()[0] == 0
    assert_same_bits(last_checkpoint(run.runs), expected)


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
