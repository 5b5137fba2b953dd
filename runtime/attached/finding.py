"""The search for runs: which of them live, and which one a command means."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import ConfigError, ConvoyError
from runtime.plan.run_plan import FILE, RunPlan
from runtime.reasons import reason
from runtime.records.journal_reading import FILE as JOURNAL
from runtime.records.presence import Presence, Sign, presence_of, presences, unheard
from runtime.records.run_identity import identity_of
from runtime.records.runs import KnownRun, directories
from runtime.regular import is_folder
from runtime.transport.socket_files import reachable

PATIENCE = 1.5  # seconds for a supervisor to answer; a stopped one is reported within 2 s


@dataclass(frozen=True)
class Alive:
    """A run that lives, or whose host has been silent. `directory` is that of the present run, None
    if `up` has not made one yet. `presence` is None for a run of an earlier version."""

    directory: Path | None
    presence: Presence | None

    @property
    def is_silent(self) -> bool:
        """Whether its host gives no sign of life, so that it is not known whether the run lives."""
        return self.presence is not None and not self.presence.lives

    @property
    def words(self) -> str:
        """The state of a run that does not answer, in words."""
        if self.presence is None or self.presence.sign is Sign.HELD:
            return "does not answer"
        return self.presence.words


async def live(below: Path, damaged: Callable[[str], None] = unheard) -> list[Alive]:
    """The runs of a folder that live. A run lives if its `up` holds its lock, on whichever host, or
    if a process listens at its sockets, even a stopped one. Runs whose host has been silent come
    last. Calls `damaged` for each lock that cannot be read. Raises ConvoyError if the folder cannot
    be read."""
    found = await asyncio.to_thread(directories, below)
    if [run.directory for run in found] == [below]:
        presence = await asyncio.to_thread(present_in, below)
        there = [] if presence is None else [Alive(below, presence)]
    else:
        there = [
            Alive(presence.run, presence)
            for presence in await asyncio.to_thread(presences, below, damaged)
        ]
    # a run without the id of its `up` is an earlier version's, or its run.json is damaged: only its
    # socket shows whether it lives
    knocked = [run.directory for run in found if not run.identity.up]
    answers = await asyncio.gather(*map(asyncio.to_thread, [listens] * len(knocked), knocked))
    there += [
        Alive(path, None) for path, answered in zip(knocked, answers, strict=True) if answered
    ]
    places: dict[Path | None, int] = {run.directory: place for place, run in enumerate(found)}
    return sorted(there, key=lambda run: (run.is_silent, places.get(run.directory, len(places))))


async def meant(run: Path | None, below: Path) -> Path:
    """The run directory of this path or name; by default the only live run, else the newest. Among
    several runs of one name the live one is chosen, else the newest. Raises ConfigError if no run
    is found or several live, and ConvoyError if the folder belongs to another user."""
    if run is None:
        found = await asyncio.to_thread(directories, below)
        if not found:
            raise ConfigError(
                [
                    (
                        f"{below}: found no run there, expected the folder of run "
                        "directories, or the "
                        "path of a run"
                    )
                ]
            )
        return _only(await live(below), found, f"in {below}")
    folders = [path for path in (run, below / run) if is_folder(path)]
    for path in folders:
        if _is_run(path):
            return path
    named = [
        known
        for known in await asyncio.to_thread(directories, below)
        if known.identity.name == str(run)
    ]
    if not named and folders:
        raise ConfigError(
            [(f"{folders[0]}: found no run.json and no {JOURNAL} in it, expected a run directory")]
        )
    if not named:
        expected = f"expected a run directory, or the name of a run in {below}"
        raise ConfigError([f"{run}: found no such folder and no run of this name, {expected}"])
    there = [known.directory for known in named]
    return _only(
        [alive for alive in await live(below) if alive.directory in there], named, f"named {run}"
    )


def _only(alive: Sequence[Alive], found: Sequence[KnownRun], which: str) -> Path:
    """The run that lives, else the newest. Raises ConfigError if several live."""
    living = [run.directory for run in alive if not run.is_silent and run.directory is not None]
    if len(living) > 1:
        names = ", ".join(path.name for path in living)
        raise ConfigError([f"{len(living)} live runs {which}: {names}; say which"])
    return living[0] if living else found[-1].directory


def lives(directory: Path) -> bool:
    """Return whether the run in this directory lives, here or on another host. Raises Damaged if
    only its lock could tell, and the lock is damaged."""
    return listens(directory) or present_in(directory) is not None


def present_in(directory: Path) -> Presence | None:
    """The presence of an `up` whose present run is the one in this directory, or is not known.
    Raises ConvoyError if the directory belongs to another user, and Damaged as `presence_of`
    does."""
    try:
        presence = presence_of(directory)
    except OSError as error:
        raise ConvoyError(f"{directory}: {reason(error)}") from None
    return (
        presence
        if presence is not None and presence.holder.run in ("", directory.resolve().name)
        else None
    )


def listens(directory: Path) -> bool:
    """Return whether a process listens at the private socket of this run. A stopped process counts,
    too. Raises ConvoyError if the system cannot be asked."""
    try:
        address = RunPlan.read(directory).supervisor.control[0].removeprefix("unix://")
        with socket.socket(socket.AF_UNIX) as knock, reachable(address) as path:
            knock.settimeout(PATIENCE)
            knock.connect(path)
    except TimeoutError:  # too many connections are waiting at the socket
        return True
    except OSError as error:  # nothing listens, unless no file descriptor was left to ask
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise ConvoyError(
                f"{directory}: whether this run is live is not known: {reason(error)}"
            ) from None
        return False
    except (ConfigError, ValueError):  # no such plan, or an invalid file name
        return False
    return True


def _is_run(path: Path) -> bool:
    """Return whether this folder is a run directory. Raises ConvoyError if it belongs to another
    user."""
    try:
        return (path / FILE).exists() or identity_of(path) is not None
    except OSError:
        raise ConvoyError(f"the run in {path} is another user's") from None
