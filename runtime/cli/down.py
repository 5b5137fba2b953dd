"""`down`: end a live run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runtime.cli.arguments import HERE, Connection, Switch, seen


def down(run: Path | None = None, *, now: Switch = False, connection: Connection = HERE) -> int:
    """End a live run in good order: it finishes the iterations under way and saves. Waits until the
    run is over.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run, else the newest.
    now
        End it at once, without saving.
    """
    return asyncio.run(_ended(run, connection, now))


async def _ended(run: Path | None, connection: Connection, now: bool) -> int:
    from runtime.attached.ending import end
    from runtime.attached.observed_run import LocalRun
    from runtime.attached.run_status import last_checkpoint, run_status
    from runtime.report.console import Teller

    console = Teller()
    async with seen(run, connection) as looked:
        found = await end(looked, now=now)
        last = looked if found.run.name == looked.name else LocalRun(found.run)
        stands = await run_status(last)
        left = last_checkpoint(stands, last.place)
    for note in stands["damaged"]:
        console.warn(note)
    how = (
        f"failed: {found.error}"
        if found.error
        else "was over before"
        if found.before
        else "has ended"
    )
    console.say(f"{last.name} {how}; last checkpoint: {left}")
    return 1 if found.error else 0
