"""Deaths while the tuner tries a setting: the run ends as always, and its last checkpoint is from
before the hold.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from nets.files.checkpoint import load as load_checkpoint
from runtime.cli.main import main
from tests.chaos.running import GONE_WITHIN, Running
from tests.helpers.support import configure, events, run_directory

TUNER = '[[process]]\nname = "tuner"\nactors = ["tuner"]\n'
TUNING = """
[train.tuning]
start = "before.json"
epoch_iterations = 30
probe_iterations = 40
"""
BEFORE = {
    "choice": {"groups": 2, "momentum": 0.9, "base_lr": 0.01},
    "saturated_groups": 2,
    "next_groups": 2,
}


def tuned(directory: Path) -> Path:
    """A run that is held for one probe before its first iteration, and for many probes about 30
    iterations later. It saves a checkpoint every 20 iterations.
    """
    cluster = configure(
        directory, "omnivore", workers=2, groups=2, iterations=100_000, batch=8, more=TUNER
    )
    cluster.write_text(
        cluster.read_text().replace("[train]\n", '[train]\nmomentum = "auto"\n') + TUNING
    )
    (directory / "before.json").write_text(json.dumps(BEFORE))
    solver = directory / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", "snapshot: 20"))
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["conv-1-0", "fc_server", "tuner"])
def test_a_death_during_a_probe_is_named_and_the_last_checkpoint_is_from_before_the_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], victim: str
) -> None:
    cluster = tuned(tmp_path)
    held = itertools.count(1)
    run = Running(cluster, lambda line: line.startswith("held") and next(held) == 2)
    try:
        assert run.process.stdout is not None
        for line in run.process.stdout:  # the first probe of that hold has ended, the next begins
            if line.startswith("probe"):
                break
        os.kill(run.pids[victim], signal.SIGKILL)
        found = re.match(
            (r"process (\S+) \(.*\) on local \(\S+, pid (\d+)\) killed by " r"SIGKILL"), run.named()
        )
        assert found is not None
        assert (found[1], int(found[2])) == (victim, run.pids[victim])
        code, said = run.finish(GONE_WITHIN)
        assert code == 4
        assert "Traceback" not in said
        assert run.left() == []
    finally:
        run.end()
    directory = run_directory(cluster)
    assert len(events(directory, "released")) == 1
    at = events(directory, "held")[-1]["iteration"]
    saved = events(directory, "checkpoint")[-1]
    assert at - 20 < saved["iteration"] <= at
    arrays, facts = load_checkpoint(directory / saved["file"])
    assert int(facts["iteration"]) == saved["iteration"]
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert {path.name for path in directory.glob("checkpoint-*")} == {
        event["file"] for event in events(directory, "checkpoint")
    }
    assert main(["check", str(cluster), "--set", f"train.resume={directory / saved['file']}"]) == 0
    assert capsys.readouterr().err == ""
