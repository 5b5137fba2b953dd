"""Which runs live, and which one is meant."""

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
from runtime.records.runs import KnownRun, runs_in

PATIENCE = 1.5  # seconds in which a supervisor answers; one that is stopped is named within 2


def directories(below: Path) -> list[KnownRun]:
    """The runs of a folder, the newest last; of `below` itself if it is a run directory.
    ConvoyError if it is another user's."""
    try:
        itself = identity_of(below)
        return runs_in(below) if itself is None else [KnownRun(below, itself)]
    except PermissionError:
        raise ConvoyError(f"{below}: it is another user's") from None
    except OSError as error:
        raise ConvoyError(f"{below}: runs cannot be looked for: {reason(error)}") from None


@dataclass(frozen=True)
class Alive:
    """A run that lives, or whose host has been silent. `directory`: of the present run; None if
    `up` has made none yet; `presence`: None of a run of an earlier version."""

    directory: Path | None
    presence: Presence | None

    @property
    def is_silent(self) -> bool:
        """Whether its host gives no sign of it, so that nobody knows whether it lives."""
        return self.presence is not None and not self.presence.lives

    @property
    def words(self) -> str:
        """What is known of one that does not answer."""
        if self.presence is None or self.presence.sign is Sign.HELD:
            return "does not answer"
        return self.presence.words


async def live(below: Path, damaged: Callable[[str], None] = unheard) -> list[Alive]:
    """The runs of a folder that live: their `up` holds its lock, on whichever host, or somebody
    listens at their sockets, whether he answers or is stopped. Those whose host has been silent
    come last. `damaged` hears of locks that cannot be read. ConvoyError if the folder cannot be
    read."""
    found = await asyncio.to_thread(directories, below)
    if [run.directory for run in found] == [below]:
        presence = await asyncio.to_thread(present_in, below)
        there = [] if presence is None else [Alive(below, presence)]
    else:
        there = [
            Alive(presence.run, presence)
            for presence in await asyncio.to_thread(presences, below, damaged)
        ]
    # without an `up` of its own a run is an earlier version's, or its run.json is damaged: only its
    # socket tells
    knocked = [run.directory for run in found if not run.identity.up]
    answers = await asyncio.gather(*map(asyncio.to_thread, [listens] * len(knocked), knocked))
    there += [
        Alive(path, None) for path, answered in zip(knocked, answers, strict=True) if answered
    ]
    places: dict[Path | None, int] = {run.directory: place for place, run in enumerate(found)}
    return sorted(there, key=lambda run: (run.is_silent, places.get(run.directory, len(places))))


async def meant(run: Path | None, below: Path) -> Path:
    """The run directory of this path or name; with none the only live run, else the newest. Of
    several runs of one name it is the live one, else the newest. ConfigError if there is none or
    there are several, ConvoyError if it is another user's."""
    if run is None:
        found = await asyncio.to_thread(directories, below)
        if not found:
            raise ConfigError(
                [
                    (
                        f"{below}: found no run there, expected the folder of run "
                        "directories, or a "
                        "run by its path"
                    )
                ]
            )
        return _only(await live(below), found, f"in {below}")
    folders = [path for path in (run, below / run) if path.is_dir()]
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
    """The one that lives, else the newest. ConfigError if several live."""
    living = [run.directory for run in alive if not run.is_silent and run.directory is not None]
    if len(living) > 1:
        names = ", ".join(path.name for path in living)
        raise ConfigError([f"{len(living)} live runs {which}: {names}; say which"])
    return living[0] if living else found[-1].directory


def lives(directory: Path) -> bool:
    """Whether the run in this directory lives, here or on another host. Damaged if only its lock
    can tell, and is damaged."""
    return listens(directory) or present_in(directory) is not None


def present_in(directory: Path) -> Presence | None:
    """The presence of an `up` whose present run is the one in this directory, or is not known.
    ConvoyError if it is another user's; Damaged as `presence_of`."""
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
    """Does somebody listen at the private socket of this run? The system says so also of one that
    is stopped. ConvoyError if it cannot be asked."""
    try:
        address = RunPlan.read(directory).supervisor.control[0].removeprefix("unix://")
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(PATIENCE)
            knock.connect(address)
    except TimeoutError:  # too many wait before it
        return True
    except OSError as error:  # nobody listens, unless no descriptor is left to ask
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise ConvoyError(
                f"{directory}: whether this run is live is not known: {reason(error)}"
            ) from None
        return False
    except (ConfigError, ValueError):  # no plan of such a run; no name that a file can have
        return False
    return True


def _is_run(path: Path) -> bool:
    """Whether this folder is a run directory. ConvoyError if it is another user's."""
    try:
        return (path / FILE).exists() or identity_of(path) is not None
    except OSError:
        raise ConvoyError(f"the run in {path} is another user's") from None
