"""`logs`: what the processes of a run have logged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

LOOK_SECONDS = 0.2  # between two looks at logs that are followed


def logs(
    run: str | None = None,
    process: str | None = None,
    *,
    follow: Annotated[bool, Parameter(alias="-f", negative=())] = False,
) -> int:
    """Show the logs of all processes of a run in the order of their times, each line behind the name of its process.

    Those of other machines are shown as far as they have been copied here, within a second while the run lives.

    Parameters
    ----------
    run
        A run directory or its name; without it the only live run, else the newest.
    process
        Only this one.
    follow
        Stay until the run is over, and show what is logged.
    """
    from runtime.cli.arguments import runs_here

    asyncio.run(_shown(run, process, runs_here(), follow))
    return 0


async def _shown(run: str | None, process: str | None, below: Path, follow: bool) -> None:
    from runtime.cli.watch.looking import meant_by, named
    from runtime.cli.watch.tails import Tails
    from runtime.plan.run_plan import RunPlan
    from runtime.report.console import RunConsole
    from runtime.runs.finding import listens

    directory, process = await meant_by(run, process, below)
    names = [spec.name for spec in RunPlan.read(directory).placement.processes]
    if process is not None:
        named(process, names, "process")
    console, tails = RunConsole(live=False), Tails(directory, process)
    width = len(process) if process is not None else max(map(len, names))
    lives = follow
    while True:
        lives = lives and await asyncio.to_thread(listens, directory)
        for name, line in tails.lines(last=not lives):
            console.say(f"{name:<{width}}  {line}")
        if not lives:
            return
        await asyncio.sleep(LOOK_SECONDS)
