"""A slow consumer slows its producer: real processes and messages of 50 MB, counted instead of
timed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import backpressure

MESSAGES = 16  # 800 MB through a window of 160 MB


@pytest.mark.few("[shared memory]")
@pytest.mark.parametrize("road", ["shared memory", "tcp"])
def test_a_consumer_ten_times_slower_bounds_its_producers_memory_and_loses_nothing(
    road: str, tmp_path: Path
) -> None:
    arguments = [
        "--roads",
        road,
        "--messages",
        str(MESSAGES),
        "--seconds",
        "60",
        "--window",
        str(160_000_000),
    ]
    assert backpressure.main([*arguments, "--results", str(tmp_path)]) == 0
    (found,) = tmp_path.glob("*.json")
    (row,) = json.loads(found.read_text())["parts"]["all"]["tables"][0]["rows"]
    assert row[2:5] == [MESSAGES, MESSAGES, 0]
    # all messages together would exceed this bound by far
    assert row[6] < row[7] < row[5] + MESSAGES * 50 / 2
