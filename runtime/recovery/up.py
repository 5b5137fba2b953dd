"""`up`: from a checked cluster.toml to an exit code. A run itself is `run.Run`, the same that scripts start; that
another follows it is the business of `restarting`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from runtime.cluster.launcher import Early
from runtime.errors import ConvoyError
from runtime.recovery.restarting import Restarting
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from runtime.runs.checking import Checked
from runtime.runs.choosing import Choosing
from runtime.runs.house import Watchers
from runtime.runs.run import directory_of, loop_factory_of
from runtime.runs.signals import Signals


class Ended(NamedTuple):
    """`code`: the exit code. `directory`: of the last run; None if none was begun. `saved`: the checkpoint after which
    nothing was left to do."""

    code: int
    directory: Path | None = None
    saved: Path | None = None


def run(checked: Checked, console: RunConsole, early: Early | None = None) -> Ended:
    """Run to the end, having told the person everything; a run that has nothing left to do leaves no run directory."""
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
    directory = None
    if checked.choice is not None:
        directory = directory_of(checked.loaded.config, asyncio.get_running_loop().time)
        choosing = Choosing(checked, checked.choice, directory, Watchers(directory, console), early)
        checked, number = await _settled(choosing, directory, console)
        if number:
            return Ended(128 + number)
    for note in checked.notes:
        console.say(note)
    run = Restarting(checked, console, early, directory)
    with Signals(run, console.say) as signals:
        error = await run.ended()
    if error is not None:
        return Ended(error.exit_code, run.directory)
    if run.summary:
        console.say(run.summary)
    return Ended(128 + signals.number if signals.number else 0, run.directory)


async def _settled(choosing: Choosing, directory: RunDirectory, console: RunConsole) -> tuple[Checked, int]:
    """With nothing left open; and the signal that ended it before, which leaves no run directory."""
    try:
        with Signals(choosing, console.say) as signals:
            found = await choosing.settled()
    except ConvoyError as error:
        directory.failed(error)
        directory.close()
        raise
    if signals.number:
        directory.discard()
    return found, signals.number
