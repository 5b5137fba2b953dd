"""Which checkpoint a run goes on from, if nobody names one: the newest that is whole and fits.
Plain search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from roles.checkpoints.meant import newest_first

Judge = Callable[[Path], str]  # why this one is not taken; "": it is


def newest(runs: Iterable[Path], of_run: Judge, of_file: Judge) -> tuple[Path | None, list[str]]:
    """The checkpoint, or None; and a line for each run and file that was skipped."""
    skipped: list[str] = []
    for run in runs:
        files = newest_first(run)
        if why := of_run(run) or ("" if files else "it has no checkpoint"):
            skipped.append(f"skipped {run}: {why}")
            continue
        for file in files:
            if not (why := of_file(file)):
                return file, skipped
            skipped.append(f"skipped {file}: {why}")
    return None, skipped
