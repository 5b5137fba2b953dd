"""`python -m benchmarks.survival`: the figures that it reads from a journal, and a run of it as a
user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import survival
from benchmarks.helpers.report import Record
from benchmarks.helpers.turns import Turns
from benchmarks.survival import waited
from tests.helpers.support import ROOT, environment


def test_the_seconds_that_training_waited_for_each_checkpoint_are_read_from_a_journal(
    tmp_path: Path,
) -> None:
    events = [
        {"event": "checkpoint", "exposed_seconds": 2.0},
        {"event": "progress", "elapsed_seconds": 1.0},
        {"event": "checkpoint", "exposed_seconds": 0.5},
    ]
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert waited(tmp_path) == [2.0, 0.5]


def test_turns_in_which_no_iteration_ends_are_called_too_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = Turns([3, 0], [0.1, 0.1])
    monkeypatch.setattr(
        survival, "taken_in_lives", lambda start, *_: dict.fromkeys(start(0), short)
    )
    monkeypatch.setattr(survival, "waited", lambda folder: [])
    record = Record("lenet")
    survival.compare(record, survival.NETS["lenet"], lives=1, rounds=2, seconds=0.1, against=None)
    assert (record.status, record.tables) == ("failed", [])
    assert record.notes == [
        ("turns of 0.1 s are too short here: a fifth of a run's turns had no iteration (--turn)")
    ]


@pytest.mark.slow
def test_all_kinds_of_run_are_compared(tmp_path: Path) -> None:
    turns = ["--lives", "1", "--rounds", "1", "--turn", "1"]
    command = [sys.executable, "-m", "benchmarks.survival", "--parts", "lenet", *turns]
    done = subprocess.run(
        [*command, "--against", ROOT, "--results", tmp_path],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "results:" in done.stdout, done.stderr
    (result,) = tmp_path.glob("*.json")
    (table,) = json.loads(result.read_text())["parts"]["lenet"]["tables"]
    assert [row[0] for row in table["rows"]] == [
        "restarts = 0",
        "restarts = 3",
        "and saves",
        f"of {ROOT.name}",
    ]
    assert all(rate > 0 for _, rate, *_ in table["rows"])
