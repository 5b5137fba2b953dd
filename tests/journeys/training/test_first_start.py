"""The first start on a machine: no kernel is compiled yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.support import ROOT, configure


@pytest.mark.slow  # compiling takes 8 s of processor time
def test_a_first_start_reports_its_compilations_and_has_the_numbers_of_every_later_start(
    tmp_path: Path,
) -> None:
    cluster = configure(
        tmp_path, "omnivore", workers=2, iterations=3, more='[run]\nname = "first"\n'
    )
    environment = {
        **os.environ,
        "CONVOY_KERNEL_CACHE": str(tmp_path / "kernels"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "runtime", "up", str(cluster)]
    losses = []
    for _ in range(2):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        newest = max(
            (tmp_path / "runs").glob("[!.]*"),
            key=lambda run: (run / "plan.json").stat().st_mtime_ns,
        )
        events = [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]
        told = [event for event in events if event["event"] == "preparing"]
        losses.append([event["loss"] for event in events if event["event"] == "progress"])
        if len(losses) == 1:
            assert {event["what"] for event in told} == {"compiling kernels"}
            last = {event["process"]: event for event in told}
            assert len(last) > 1, "every process that computes must compile a share"
            assert all(event["done"] == event["total"] > 0 for event in last.values())
            assert "preparing  " in done.stdout
        else:
            assert told == []
    assert losses[0] == losses[1] != []
