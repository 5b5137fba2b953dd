"""The kept results of benchmarks: the newest record of a part, of all widths of vectors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.helpers.report import ROOT, WIDTHS, Record

RESULTS = ROOT / "benchmarks" / "results"
UNMEASURED = ("running", "skipped")


@dataclass(frozen=True)
class Kept:
    """The record of a part, and the name of the file that has it."""

    file: str
    record: Record


def newest(benchmark: str, part: str, folder: Path = RESULTS) -> Kept | None:
    """The record of a part that was measured last. None if the part was not measured."""
    return next(iter(measured(benchmark, part, folder)), None)


def measured(benchmark: str, part: str, folder: Path = RESULTS) -> list[Kept]:
    """The measured records of a part, the newest first."""
    found = [
        Kept(path.stem, Record.of(parts[part]))
        for width in sorted(WIDTHS.values())
        if (path := folder / f"{benchmark}-{width}.json").exists()
        and part in (parts := json.loads(path.read_text("utf-8"))["parts"])
    ]
    done = [kept for kept in found if kept.record.status not in UNMEASURED]
    return sorted(done, key=lambda kept: str(kept.record.machine["date"]), reverse=True)
