"""The command `up`: from a checked cluster.toml to an exit code. A single run is `run.Run`, which
scripts start too. `restarting` starts the runs that follow it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from runtime.cluster.launcher import Early
from runtime.errors import ConvoyError
from runtime.records.lock_file import CHOOSING, RUNNING
from runtime.records.up_lock import UpLock
from runtime.recovery.restarting import Restarting
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from runtime.runs.checking import Checked
from runtime.runs.choosing import Choosing
from runtime.runs.execution import Watchers
from runtime.runs.making import directory_of, loop_factory_of
from runtime.runs.outside import Wishes, locked
from runtime.runs.signals import Signals


class Ended(NamedTuple):
    """How `up` has ended. `code` is the exit code. `directory` is the run directory of the last
    run, or None if no run was started. `saved` is the checkpoint of a run that had nothing left to
    do."""

    code: int
    directory: Path | None = None
    saved: Path | None = None


def run(checked: Checked, console: RunConsole, early: Early | None = None) -> Ended:
    """Run until the end and show the user all warnings and notes first. A run that has nothing left
    to do makes no run directory."""
    for warning in checked.warnings:
        console.warn(warning)
    for line in checked.resumed:
        console.say(line)
    if checked.finished is not None:
        console.say("finished   nothing is left to do, and nothing was started")
        console.close()
        return Ended(0, saved=checked.finished)
    try:
        with asyncio.Runner(loop_factory=loop_factory_of(checked.loaded.config)) as runner:
            return runner.run(_live(checked, console, early))
    finally:
        console.close()


async def _live(checked: Checked, console: RunConsole, early: Early | None) -> Ended:
    config = checked.loaded.config
    with locked(config, console.warn) as lock:
        topology = checked.placement.topology
        directory = directory_of(config, topology, asyncio.get_running_loop().time, up=lock)
        if lock is not None:
            lock.says(RUNNING if checked.choice is None else CHOOSING, directory.path.name)
        if checked.choice is not None:
            choosing = Choosing(
                checked, checked.choice, directory, Watchers(directory, console), early
            )
            checked, code = await _settled(choosing, directory, console, lock)
            if checked.choice is not None:
                return Ended(code)
        try:
            run = Restarting(checked, console, early, directory, lock)
        except ConvoyError:
            directory.discard()
            raise
        return await _trained(run, checked, console, lock)


async def _trained(
    run: Restarting, checked: Checked, console: RunConsole, lock: UpLock | None
) -> Ended:
    for note in checked.notes:
        console.say(note)
    with Signals(run, console.say) as signals, Wishes(lock, run):
        error = await run.ended()
    if error is not None:
        return Ended(error.exit_code, run.directory)
    if run.summary:
        console.say(run.summary)
    return Ended(128 + signals.number if signals.number else 0, run.directory)


async def _settled(
    choosing: Choosing, directory: RunDirectory, console: RunConsole, lock: UpLock | None
) -> tuple[Checked, int]:
    """Return the run with every open choice made, and exit code 0. If the user ended `up` before
    that, return the run unchanged and the exit code; the run directory is then removed."""
    try:
        with Signals(choosing, console.say) as signals, Wishes(lock, choosing):
            found = await choosing.settled()
    except ConvoyError as error:
        directory.failed(error)
        directory.close()
        raise
    if choosing.over:
        directory.discard()
        return choosing.checked, 128 + signals.number if signals.number else 0
    return found, 0
