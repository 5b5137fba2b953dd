"""The benchmark of reading, at a small size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import reading


@pytest.mark.slow
def test_every_side_reads_and_two_processes_are_judged(tmp_path: Path) -> None:
    pytest.importorskip("simplejpeg")
    given = ["--batch", "4", "--most", "1", "--seconds", "0", "--results", str(tmp_path)]
    assert reading.main(given) == 0  # one core: nothing is judged
    (path,) = tmp_path.glob("reading-*.json")
    record = json.loads(path.read_text())["parts"]["reading"]
    sides = [row[0] for row in record["tables"][0]["rows"]]
    assert sides == ["1 thread", "2 threads", "1 process", "2 processes"]
