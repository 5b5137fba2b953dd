"""`down`: end a live run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runtime.cli.arguments import HERE, Connection, Switch, seen


def down(run: Path | None = None, *, now: Switch = False, connection: Connection = HERE) -> int:
    """Bring a live run to a good end: it finishes what is under way and saves. Waits until it is over.

    Parameters
    ----------
    run
        A run directory or its name; without it the only live run, else the newest.
    now
        End it at once, without saving.
    """
    return asyncio.run(_ended(run, connection, now))


async def _ended(run: Path | None, connection: Connection, now: bool) -> int:
    from runtime.attached.standing import last_checkpoint, standing
    from runtime.report.console import Teller

    error = ""
    async with seen(run, connection) as looked:
        living = await looked.lives()
        if living:
            async with looked.client() as client:
                error = await client.end(now=now)
        left = last_checkpoint(await standing(looked), looked.place)
    how = f"failed: {error}" if error else "has ended" if living else "was over before: nobody listens at its socket"
    Teller().say(f"{looked.name} {how}; last checkpoint: {left}")
    return 1 if error else 0
