"""`python -m benchmarks.survival`: what it reads in a journal, and that it runs as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.survival import Ran, ran
from tests.support import ROOT, environment


def test_checkpoints_count_in_the_speed_of_a_run_and_its_first_fifth_does_not() -> None:
    """10 images in each iteration: one a second, but the sixth takes 3 s, of which a checkpoint exposes 2."""
    seconds = [5.0, 6.0, 7.0, 8.0, 9.0, 12.0, 13.0, 14.0, 15.0, 16.0]
    events: list[dict[str, Any]] = [
        {"event": "progress", "t": at, "elapsed_seconds": at, "iteration": number}
        for number, at in enumerate(seconds, start=1)
    ]  # fmt: skip
    events.insert(0, {"event": "checkpoint", "t": 1.0, "exposed_seconds": 9.0})
    events.insert(7, {"event": "checkpoint", "t": 11.0, "exposed_seconds": 2.0})
    assert ran(10, events) == Ran(images=70 / 9, seconds=9.0, done=7, checkpoints=1, exposed=2.0)


@pytest.mark.slow
def test_both_kinds_of_run_are_compared(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.survival", "--parts", "lenet", "--rounds", "1", "--iterations", "100"]
    done = subprocess.run(
        [*command, "--results", tmp_path], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert "results:" in done.stdout, done.stderr
    (result,) = tmp_path.glob("*.json")
    (table,) = json.loads(result.read_text())["parts"]["lenet"]["tables"]
    ((_, off, on, *_),) = table["rows"]
    assert off > 0 and on > 0
