"""The runs of a folder, in the order in which they began. Only this module decides which run is the
newest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import ConvoyError
from runtime.reasons import reason
from runtime.records import journal_reading
from runtime.records.run_identity import Identity, identity_of
from runtime.regular import is_folder


@dataclass(frozen=True)
class KnownRun:
    """A run directory and the identity of its run."""

    directory: Path
    identity: Identity


def runs_in(folder: Path) -> list[KnownRun]:
    """Return the runs of a folder, the newest last. The list is empty if the folder does not exist.

    Run directories of other users are left out, and so are links such as `latest`. Raises OSError
    if the folder cannot be read.
    """
    try:
        paths = [path for path in folder.iterdir() if not path.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [KnownRun(path, said) for path in paths if (said := _identity(path)) is not None]
    return sorted(found, key=_order)


def directories(below: Path) -> list[KnownRun]:
    """The runs of a folder, the newest last. If `below` is a run directory, only that run. Raises
    ConvoyError if the folder belongs to another user."""
    try:
        itself = identity_of(below)
        return runs_in(below) if itself is None else [KnownRun(below, itself)]
    except PermissionError:
        raise ConvoyError(f"{below}: it is another user's") from None
    except OSError as error:
        raise ConvoyError(f"{below}: runs cannot be looked for: {reason(error)}") from None


def _order(run: KnownRun) -> tuple[float, float, int, str]:
    """The sort key of a run: its start time. Copies of one run directory are ordered by the time of
    their last write, then by the length of their names, longest first, since copies are called
    X.bak."""
    return run.identity.began, _written(run.directory), -len(run.directory.name), run.directory.name


def _written(directory: Path) -> float:
    try:
        return (directory / journal_reading.FILE).stat().st_mtime
    except OSError:
        return 0.0


def runs_named(folder: Path, *names: str) -> list[KnownRun]:
    """Return the runs with one of these names, the newest last. Raises OSError."""
    return [run for run in runs_in(folder) if run.identity.name in names]


def run_directory(said: Path, folder: Path) -> Path | None:
    """Return the directory of the run that a person named, or None.

    `said` may be a path, the name of a run directory in `folder`, or the name of runs there, of
    which the newest is taken. A folder of this name that is not a run directory is the last choice.
    Raises OSError if the folder cannot be read.
    """
    folders = [path for path in (said, folder / said) if is_folder(path)]
    for path in folders:
        if _identity(path) is not None:
            return path
    named = runs_named(folder, str(said))
    return named[-1].directory if named else next(iter(folders), None)


def run_with(folder: Path, run_id: str) -> KnownRun | None:
    """Return the run of the folder that has this id, or None. Raises OSError."""
    return next((run for run in runs_in(folder) if run_id and run.identity.id == run_id), None)


def next_begin(folder: Path, clock: float) -> tuple[float, KnownRun | None]:
    """Return the start time for a run that is made now, in seconds since 1970, and None or a later
    run.

    The start time is the clock's time, unless a run of the folder began later by its own record. In
    that case the clock was set back, or another host's clock is ahead. The new run then begins
    right after that run, which is returned too. In this way the newest run is always the one
    started last.
    """
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
