"""The runs of a folder, in the order in which they began: the one place that says which run is the
newest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from runtime.records import journal_reading
from runtime.records.run_identity import Identity, identity_of


@dataclass(frozen=True)
class KnownRun:
    """A run directory, and what its run.json says."""

    directory: Path
    identity: Identity


def runs_in(folder: Path) -> list[KnownRun]:
    """The runs of a folder, the newest last; a run directory that is another user's is left out,
    and so is a link, such as `latest`. OSError if the folder cannot be read; an empty list if there
    is none."""
    try:
        paths = [path for path in folder.iterdir() if not path.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [KnownRun(path, said) for path in paths if (said := _identity(path)) is not None]
    return sorted(found, key=_order)


def _order(run: KnownRun) -> tuple[float, float, int, str]:
    """By the begin. Of copies of one run directory the one that was written last comes last, then
    the one with the shortest name: copies are called X.bak."""
    return run.identity.began, _written(run.directory), -len(run.directory.name), run.directory.name


def _written(directory: Path) -> float:
    try:
        return (directory / journal_reading.FILE).stat().st_mtime
    except OSError:
        return 0.0


def runs_named(folder: Path, name: str) -> list[KnownRun]:
    """Those of one name, the newest last. OSError."""
    return [run for run in runs_in(folder) if run.identity.name == name]


def run_directory(said: Path, folder: Path) -> Path | None:
    """The directory of the run that a person named: a path, the name of a run directory in
    `folder`, or the name of a run there, of which the newest is meant. A folder of this name that
    is not a run directory comes last. OSError if the folder cannot be read."""
    folders = [path for path in (said, folder / said) if path.is_dir()]
    for path in folders:
        if _identity(path) is not None:
            return path
    named = runs_named(folder, str(said))
    return named[-1].directory if named else next(iter(folders), None)


def run_with(folder: Path, run_id: str) -> KnownRun | None:
    """The run with this id, if it is in the folder. OSError."""
    return next((run for run in runs_in(folder) if run_id and run.identity.id == run_id), None)


def next_begin(folder: Path, clock: float) -> tuple[float, KnownRun | None]:
    """The begin of a run that is made now, in seconds since 1970: what the clock says, unless a run
    of the folder began later by its own record. Then the clock was set back, or another host's is
    ahead: the new run begins right after that one, which is given too, so that the newest run is
    the one that was started last."""
    runs = runs_in(folder)
    if not runs or runs[-1].identity.began < clock:
        return clock, None
    last = runs[-1].identity.began
    return max(last + 1e-6, math.nextafter(last, math.inf)), runs[-1]


def _identity(path: Path) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:
        return None
