"""The list of the runs of a folder, each with its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.records.presence import presences
from runtime.records.run_files import Damaged
from runtime.records.run_identity import Identity
from runtime.records.runs import KnownRun, directories
from runtime.report.run_summary import FILE, RunSummary, summary_of


@dataclass(frozen=True)
class ListedRun:
    """A run of a list: its directory, its identity and its summary."""

    directory: Path
    identity: Identity
    summary: RunSummary

    @property
    def keys(self) -> Mapping[str, Any]:
        """The keys of its configuration, with their values."""
        return self.summary.keys

    @property
    def net(self) -> str:
        """The net by the run's topology, or the key train.net of a run of an earlier version."""
        found = self.identity.title or self.keys.get("train.net", "")
        return found if isinstance(found, str) else ""

    def plain(self) -> dict[str, Any]:
        """The facts of the run as plain data."""
        return {
            "name": self.identity.name,
            "directory": str(self.directory),
            "began": self.identity.moment,
            "net": self.net,
            **vars(self.summary),
        }


def listed(below: Path, damaged: list[str]) -> list[ListedRun]:
    """The runs of a folder, or the run of a run directory, the newest last. A line for each damaged
    file is added to `damaged`. Raises ConvoyError if the folder cannot be read."""
    found = directories(below)
    alone = [run.directory for run in found] == [below]
    alive = (
        set() if alone else {at.holder.run for at in presences(below, damaged.append) if at.lives}
    )
    return [_listed(run, _lives(run, None if alone else alive, damaged), damaged) for run in found]


def listed_run(directory: Path, damaged: list[str]) -> ListedRun:
    """The run in this run directory. Raises ConvoyError if it cannot be read."""
    return listed(directory, damaged)[-1]


def _listed(run: KnownRun, lives: bool, damaged: list[str]) -> ListedRun:
    summary = summary_of(run.directory, lives=lives, damaged=damaged)
    return ListedRun(run.directory, run.identity, summary)


def _lives(run: KnownRun, alive: set[str] | None, damaged: list[str]) -> bool:
    """Whether the run lives. `alive` has the names of the run directories whose `up` lives; None if
    it is not known. Only a run of an earlier version is asked at its socket."""
    if (run.directory / FILE).exists():
        return False
    if alive is not None and run.identity.up:
        return run.directory.name in alive
    from runtime.attached.finding import (  # it imports the messages, which is slow
        listens,
        present_in,
    )

    try:
        return listens(run.directory) or (alive is None and present_in(run.directory) is not None)
    except Damaged as error:
        damaged.append(str(error))
        return False
