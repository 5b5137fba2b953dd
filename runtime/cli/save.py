"""`save`: a checkpoint of a live run now."""

from __future__ import annotations

import asyncio
from pathlib import Path


def save(run: Path | None = None) -> int:
    """Have a live run save a checkpoint after what is under way, and go on. Waits for it and writes its path.

    Parameters
    ----------
    run
        A run directory or its name; without it the only live run.
    """
    from runtime.cli.arguments import runs_here

    return asyncio.run(_saved(run, runs_here()))


async def _saved(run: Path | None, below: Path) -> int:
    from runtime.errors import ProgramFailed
    from runtime.report.console import RunConsole
    from runtime.runs.attach import Client
    from runtime.runs.finding import PATIENCE, meant

    directory = await meant(run, below)
    async with Client(directory, PATIENCE) as client:
        await client.save()
        async for event in client.events():
            if event.name == "unsaved":
                raise ProgramFailed(f"{directory.name}: no checkpoint: {event.fields.get('why')}")
            if event.name == "checkpoint" and not event.fields.get("timed"):
                RunConsole(live=False).say(str(directory / event["file"]))
                return 0
    raise ProgramFailed(f"{directory.name}: it ended, and saved nothing before")
