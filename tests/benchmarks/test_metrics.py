"""`python -m benchmarks.metrics`, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.metrics import share
from tests.helpers.support import ROOT, environment


def test_a_share_of_all_is_the_least_value_that_it_does_not_exceed() -> None:
    times = [float(number) for number in range(1, 101)]
    assert [share(times, part) for part in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert share([3.0], 0.99) == 3.0


@pytest.mark.slow
def test_a_scrape_of_a_busy_run_is_timed_for_every_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.metrics", "--parts", "scrape", "--seconds", "3"]
    done = subprocess.run(
        [*command, "--results", tmp_path],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "p99 of a scrape" in done.stdout, done.stderr
    (result,) = tmp_path.glob("*.json")
    (table,) = json.loads(result.read_text())["parts"]["scrape"]["tables"]
    pages = {row[0]: row[3] for row in table["rows"]}
    assert pages.pop("all") == 18
    assert pages == dict.fromkeys(
        ("up", "coordinator", "conv_model", "fc_server", "conv-0-0", "conv-0-1"), 3
    )
