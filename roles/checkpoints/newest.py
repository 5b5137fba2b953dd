"""The newest checkpoint that is whole and fits a run, for a run that resumes without a named file.
A plain search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from roles.checkpoints.meant import newest_first

Judge = Callable[[Path], str]  # the reason to skip this run or file; "": it is taken


def newest(runs: Iterable[Path], of_run: Judge, of_file: Judge) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that both judges accept, or None; and a line for each run and file that
    was skipped."""
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
