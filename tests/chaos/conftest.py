"""Fixtures of the tests that kill processes, cut cables and fail disks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.helpers.survivor import Survivor
from tests.chaos.recovering import Starts
from tests.helpers.support import environment


@pytest.fixture
def survivor() -> Iterator[Starts]:
    """Start runs, and stop each of them after the test."""
    started: list[Survivor] = []

    def start(cluster: Path) -> Survivor:
        started.append(Survivor(cluster, environment()))
        return started[-1]

    yield start
    for run in started:
        run.stop()
