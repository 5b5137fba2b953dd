"""`top`: show each actor's work and waits, second by second, and the bottleneck."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from runtime.cli.arguments import HERE, Connection, Switch, seen
from runtime.cli.watch.bottleneck import bottleneck
from runtime.cli.watch.rates import Row, rows
from runtime.cli.watch.run_sampling import Look, Looking
from runtime.cli.watch.top_lines import sheet
from runtime.records import journal_reading
from runtime.records.journal_reading import is_number
from runtime.records.run_files import Damaged, LeftOut

STAMPS = ("t", "unix_seconds", "actor", "event")
WIDE = 1000  # cells; a file or pipe gets all columns
REFRESH_SECONDS = 1.0  # between two looks; shares and rates refer to this time
# event name -> fields of the latest; a row for each actor
Shown = tuple[dict[str, dict[str, Any]], list[Row]]


def top(
    run: Path | None = None,
    *,
    once: Switch = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    connection: Connection = HERE,
) -> int:
    """Show what every actor of a live run computes, waits for and receives, refreshed each second;
    `q` ends it.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run.
    once
        Show one second with all actors, and end. This is the default if stdout is not a terminal.
    as_json
        Write one second as an object, for scripts.
    """
    return asyncio.run(_shown(run, connection, once, as_json))


async def _shown(run: Path | None, connection: Connection, once: bool, as_json: bool) -> int:
    from runtime.cluster.operators.operator_messages import JOURNAL
    from runtime.errors import ActorStopped
    from runtime.report.console import Teller

    console = Teller()
    async with (
        seen(run, connection) as looked,
        looked.client() as client,
        Looking(client) as looking,
    ):
        await looked.refresh(JOURNAL)
        name = looked.name
        latest = await asyncio.to_thread(_latest, looked.directory, console.warn)
        if as_json or once or not console.console.is_terminal:
            async with aclosing(_looks(looking, latest, asyncio.Event())) as looks:
                events, found = await anext(looks)
            if as_json:
                actors = [row.plain() for row in found]
                told: dict[str, Any] = {
                    "run": name,
                    "bottleneck": bottleneck(found),
                    "actors": actors,
                }
                told |= {name: events.get(name, {}) for name in ("progress", "prediction")}
                console.say(json.dumps(told, indent=1))
            else:
                width = console.console.width if console.console.is_terminal else WIDE
                for line in sheet(name, events, found, width, 0):
                    console.say(line)
            return 0
        try:
            await _live(looking, name, latest, console)
        except ActorStopped as over:
            console.say(str(over))
    return 0


async def _live(
    looking: Looking, name: str, latest: dict[str, dict[str, Any]], console: Any
) -> None:
    """Show the view until a key or Ctrl-C ends it, or the run is over."""
    from rich.live import Live

    from runtime.cli.watch.quit_keys import pressed
    from runtime.report.console import as_lines

    with pressed() as ended, Live(console=console.console, screen=True, auto_refresh=False) as live:
        async with aclosing(_looks(looking, latest, ended)) as looks:
            async for events, found in looks:
                width, height = console.console.size
                lines = sheet(f"{name}   q: end", events, found, width, height)
                live.update(as_lines(lines), refresh=True)


async def _looks(
    looking: Looking, events: dict[str, dict[str, Any]], ended: asyncio.Event
) -> AsyncGenerator[Shown, None]:
    """Yield one look after another, until the user ends the view or the run is over."""
    before: Look = await looking.look(REFRESH_SECONDS)
    hearing = asyncio.create_task(_hear(looking, events))
    try:
        while not await _within(ended, REFRESH_SECONDS):
            after = await looking.look(REFRESH_SECONDS)
            homes = looking.client.placement.process_of()
            yield events, rows(before, after, homes, _predicted(events))
            before = after
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


async def _hear(looking: Looking, events: dict[str, dict[str, Any]]) -> None:
    async for event in looking.client.events():
        events[event.name] = dict(event.fields)


async def _within(ended: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(ended.wait(), seconds)
    except TimeoutError:
        return False
    return True


def _predicted(events: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The share of the time that each actor was predicted to compute."""
    use = events.get("prediction", {}).get("predicted_use")
    return (
        {actor: share for actor, share in use.items() if is_number(share)}
        if isinstance(use, dict)
        else {}
    )


def _latest(directory: Path, warn: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Event name -> fields of its latest event so far."""
    found: dict[str, dict[str, Any]] = {}
    damaged = LeftOut(directory / journal_reading.FILE)
    try:
        for event in journal_reading.events(directory, damaged):
            found[event["event"]] = {
                name: value for name, value in event.items() if name not in STAMPS
            }
    except Damaged as error:
        warn(str(error))
    for note in damaged.notes:
        warn(note)
    return found
