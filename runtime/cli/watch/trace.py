"""`trace`: what the actors of a live run do and when, as a file that Perfetto opens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators


def trace(
    action: Literal["start", "stop"],
    run: Path | None = None,
    *,
    iterations: Annotated[int, Parameter(alias="-n", validator=validators.Number(gte=0))] = 0,
) -> int:
    """Trace a live run, or end that and write trace.json into its run directory: open it at ui.perfetto.dev.

    A trace that a death has cut is made whole by `trace stop`, too.

    Parameters
    ----------
    action
        "start" or "stop".
    run
        A run directory or its name; without it the only live run, else the newest.
    iterations
        Trace so many, and end then; without it until `trace stop` or the end of the run.
    """
    from runtime.cli.arguments import runs_here

    return asyncio.run(_done(action, run, runs_here(), iterations))


async def _done(action: str, run: Path | None, below: Path, iterations: int) -> int:
    from runtime.errors import ActorStopped, ProgramFailed, Refused
    from runtime.report.console import RunConsole
    from runtime.runs.attach import Client
    from runtime.runs.finding import PATIENCE, listens, meant
    from runtime.tracing.merging import is_unmerged, merge

    directory, say = await meant(run, below), RunConsole(live=False).say
    if not await asyncio.to_thread(listens, directory):
        if action == "start" or not is_unmerged(directory):
            raise ActorStopped(f"the run in {directory} is over" + ("" if action == "start" else ": it was not traced"))
        try:
            say(str(await asyncio.to_thread(merge, directory)))
        except (OSError, ValueError) as error:
            raise ProgramFailed(f"no trace of {directory.name}: {error}") from None
        return 0
    try:
        async with Client(directory, PATIENCE) as client:
            lines = await (client.begin_trace(iterations) if action == "start" else client.end_trace())
    except Refused as error:
        raise ProgramFailed(f"{directory.name}: {str(error).partition(': ')[2]}") from None
    for line in lines:
        say(line)
    return 0
