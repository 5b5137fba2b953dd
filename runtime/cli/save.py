"""`save`: make a live run save a checkpoint now."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runtime.cli.arguments import HERE, Connection, seen


def save(run: Path | None = None, *, connection: Connection = HERE) -> int:
    """Make a live run save a checkpoint after the iterations under way, and go on. Waits for the
    checkpoint and prints its path.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run.
    """
    return asyncio.run(_saved(run, connection))


async def _saved(run: Path | None, connection: Connection) -> int:
    from runtime.errors import ProgramFailed
    from runtime.report.console import Teller

    async with seen(run, connection) as looked, looked.client() as client:
        await client.save()
        async for event in client.events():
            if event.name == "unsaved":
                raise ProgramFailed(f"{looked.name}: no checkpoint: {event.fields.get('why')}")
            if event.name == "checkpoint" and not event.fields.get("timed"):
                Teller().say(str(looked.place / event["file"]))
                return 0
    raise ProgramFailed(f"{looked.name}: the run ended without saving a checkpoint")
