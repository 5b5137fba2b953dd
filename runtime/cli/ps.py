"""`ps`: list the live runs of this user."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from runtime.cli.arguments import HERE, Connection, runs_here, seen
from runtime.regular import is_folder

if TYPE_CHECKING:
    from runtime.attached.finding import Alive

MOST_NOTES = 20  # about damaged files that are printed


def ps(
    below: Path | None = None,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    connection: Connection = HERE,
) -> int:
    """List the live runs: when each began, its progress, its program and its directory.

    Parameters
    ----------
    below
        The folder of run directories; by default `run.directory` of the cluster.toml here.
    as_json
        Write an array of objects, for scripts.
    """
    from runtime.errors import ConfigError
    from runtime.report.console import Teller

    if below is not None and connection.connect is None and not is_folder(below):
        raise ConfigError(
            [(f"ps {below}: found no folder of that name, expected the folder of run directories")]
        )
    notes: list[str] = []
    looking = (
        _living(below or runs_here(), notes.append)
        if connection.connect is None
        else _there(below, connection)
    )
    found = asyncio.run(looking)
    console = Teller()
    notes += (note for run in found for note in run.get("damaged", ()))
    for note in notes[:MOST_NOTES]:
        console.warn(note)
    if len(notes) > MOST_NOTES:
        console.warn(f"{len(notes) - MOST_NOTES} more files are damaged")
    if as_json:
        console.say(json.dumps(found, indent=1))
        return 0
    for run in found:
        console.say(_line(run))
    if not found:
        console.say(f"no live run in {below or runs_here()}")
    return 0


async def _living(below: Path, damaged: Callable[[str], None]) -> list[dict[str, Any]]:
    from runtime.attached.finding import live

    return list(await asyncio.gather(*map(_one, await live(below, damaged))))


async def _there(below: Path | None, connection: Connection) -> list[dict[str, Any]]:
    from runtime.attached.run_status import run_status

    async with seen(below, connection) as looked:
        return [await run_status(looked)]


async def _one(alive: Alive) -> dict[str, Any]:
    from runtime.attached.observed_run import LocalRun
    from runtime.attached.run_status import run_status
    from runtime.errors import ConvoyError

    if alive.directory is None:
        return _without_directory(alive)
    at = {"name": alive.directory.name, "directory": str(alive.directory)}
    try:
        return await run_status(LocalRun(alive.directory))
    except ConvoyError as error:
        return {**at, "state": alive.words, "error": str(error)}


def _without_directory(alive: Alive) -> dict[str, Any]:
    """The entry of an `up` without a run directory: it has not made one yet, or the directory was
    removed."""
    from runtime.records.presence import UNREADABLE

    presence = alive.presence
    assert presence is not None
    starts = presence.lives and not presence.holder.run and presence.holder.state != UNREADABLE
    words = "starting" if starts else presence.words
    return {"name": f"up {presence.holder.up}", "directory": str(presence.folder), "state": words}


def _line(run: dict[str, Any]) -> str:
    from runtime.report.columns import moment

    if "since" not in run:
        return f"{run['name']:<32} {run['state']}  {run['directory']}"
    at = (
        "/".join(
            str(run["progress"][name])
            for name in ("iteration", "max_iter")
            if name in run["progress"]
        )
        or "-"
    )
    since = f"since {moment(run['since'])}"
    return (
        f"{run['name']:<32} {run['state']:<12} {since}  {at:<12} {run['program']}  "
        f"{run['directory']}"
    )
