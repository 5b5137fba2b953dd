"""The benchmark of gradient formats at a small size: it runs the real roles, counts their bytes and
checks formats against their bars."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import wire_formats
from benchmarks.helpers.report import Record

CONV = [500, 20, 25000, 50]  # the sizes of LeNet's gradients that travel


def test_two_formats_are_trained_and_their_bytes_counted(tmp_path: Path) -> None:
    given = [
        "--seeds",
        "1",
        "2",
        "--formats",
        "float32",
        "one-bit",
        "--iterations",
        "2",
        "--kept",
        str(tmp_path / "kept"),
    ]
    for _ in range(2):  # the second time all results come from the kept file
        wire_formats.main([*given, "--results", str(tmp_path)])
    assert len(json.loads((tmp_path / "kept").read_text())) == 4
    (found,) = tmp_path.glob("wire-formats-*.json")
    accuracy, beside = json.loads(found.read_text())["parts"]["lenet"]["tables"]
    assert [row[0] for row in accuracy["rows"]] == [1, 2, "mean"]
    # Blocks of 256 values. The short blocks are filled up to whole words.
    bits = (2 * 32 + 2 * 8) + (4 + 8) + (98 * 32 + 98 * 8) + (8 + 8)
    # four workers and two reducers send
    assert [row[4] for row in beside["rows"]] == [6 * 4 * sum(CONV), 6 * bits]


def test_a_format_beyond_its_bar_fails_and_one_without_a_bar_never_does() -> None:
    record = Record("t", status="passed")
    right = {
        "float32": [99.0, 99.2],
        "float16": [99.05, 99.2],
        "one-bit": [98.7, 98.8],
        "threshold": [90.0, 90.0],
    }
    wire_formats.concluded(record, right, {name: [100.0, 100.0] for name in right})
    assert record.status == "failed"
    assert record.notes == ["one-bit is -0.35 points from float32, more than 0.3"]
