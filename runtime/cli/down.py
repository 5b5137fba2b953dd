"""`down`: end a live run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def down(run: Path | None = None, *, now: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Bring a live run to a good end: it finishes what is under way and saves. Waits until it is over.

    Parameters
    ----------
    run
        A run directory or its name; without it the only live run, else the newest.
    now
        End it at once, without saving.
    """
    from runtime.cli.arguments import runs_here

    return asyncio.run(_ended(run, runs_here(), now))


async def _ended(run: Path | None, below: Path, now: bool) -> int:
    from runtime.report.console import RunConsole
    from runtime.runs.attach import Client
    from runtime.runs.finding import PATIENCE, listens, meant
    from runtime.runs.standing import standing

    directory, error = await meant(run, below), ""
    living = await asyncio.to_thread(listens, directory)
    if living:
        async with Client(directory, PATIENCE) as client:
            error = await client.end(now=now)
    left = (await standing(directory))["checkpoint"]
    how = f"failed: {error}" if error else "has ended" if living else "was over before: nobody listens at its socket"
    RunConsole(live=False).say(f"{directory.name} {how}; last checkpoint: {directory / left if left else 'none'}")
    return 1 if error else 0
