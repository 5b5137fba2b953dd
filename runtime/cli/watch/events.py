"""`events`: print the journal of a run, live or over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.cli.arguments import HERE, Connection, seen

if TYPE_CHECKING:
    from runtime.attached.observed_run import ObservedRun
    from runtime.report.console import Teller

FOLLOW_SECONDS = 90.0  # until the next run listens: it may wait for a machine
WIDTH = 200  # characters of a line; a longer text goes on below
INDENT = 26  # characters before the fields of an event
LOOK_SECONDS = 0.2  # between two looks at a live run's journal


def events(
    run: Path | None = None,
    *,
    follow: Annotated[bool, Parameter(alias="-f", negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    connection: Connection = HERE,
) -> int:
    """Show the events of a run, from its first on.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run, else the newest.
    follow
        Stay until the run is over, and show new events. If the run is scaled, also show the run
        that continues it.
    as_json
        Write the lines of events.jsonl as they are, for scripts.
    """
    asyncio.run(_shown(run, connection, follow, as_json))
    return 0


async def _shown(run: Path | None, connection: Connection, follow: bool, as_json: bool) -> None:
    from runtime.records.journal_reading import event_of
    from runtime.report.console import Teller
    from runtime.report.event_stream import Event
    from runtime.runs.continuing import CONTINUED
    from runtime.terminal_text import bounded

    console = Teller()
    async with seen(run, connection) as looked:
        while True:
            following = ""
            async for line in _lines(looked, follow, console):
                fields = event_of(line)
                if fields is None:
                    console.warn(
                        f"a line of events.jsonl is damaged and left out: {bounded(line, 500)}"
                    )
                    continue
                t, actor, event = (fields.pop(name) for name in ("t", "actor", "event"))
                fields.pop("unix_seconds", None)
                console.say(
                    line.rstrip() if as_json else _broken(str(Event(t, actor, event, fields)))
                )
                if follow and event == CONTINUED:
                    following = str(fields.get("in"))
            if not following:
                return
            await looked.follow(following, FOLLOW_SECONDS)


def _broken(text: str) -> str:
    """The text of an event in lines of at most WIDTH characters."""
    from runtime.report.columns import wrapped
    from runtime.terminal_text import printable

    lines = printable(text).split("\n")
    return "\n".join(part for line in lines for part in wrapped(line, WIDTH, INDENT) or [""])


async def _lines(looked: ObservedRun, follow: bool, console: Teller) -> AsyncIterator[str]:
    """Whole lines of the journal. It is read once more after the run is over."""
    from runtime.attached.journal_following import followed
    from runtime.cluster.operators.operator_messages import JOURNAL
    from runtime.records.journal_reading import torn
    from runtime.records.run_files import Lines

    await looked.refresh(JOURNAL)
    async with followed(looked, follow) as end:
        journal = Lines(looked.directory / JOURNAL)
        goes_on = True
        while goes_on:
            goes_on = follow and await looked.lives()
            await looked.refresh(JOURNAL)
            for line in journal.whole():  # blocking is fine: nothing else runs on this loop
                yield line.decode(errors="replace").rstrip("\n")
            if goes_on:
                await asyncio.sleep(LOOK_SECONDS)
                console.check()
        await end()
        for line in journal.whole():
            yield line.decode(errors="replace").rstrip("\n")
        if not await looked.lives():
            for note in await asyncio.to_thread(torn, looked.directory):
                console.warn(note)
