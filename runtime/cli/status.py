"""`status`: show the progress of a run and of each of its processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from runtime.cli.arguments import HERE, Connection, seen


def status(
    run: Path | None = None,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    connection: Connection = HERE,
) -> int:
    """Show the progress of a run, and the work of each of its processes. For a run that is over,
    show its result.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run, else the newest.
    as_json
        Write one object, for scripts.
    """
    from runtime.report.console import Teller

    found = asyncio.run(_found(run, connection))
    console = Teller()
    for line in [json.dumps(found, indent=1)] if as_json else _lines(found):
        console.say(line)
    for note in found["damaged"]:
        console.warn(note)
    return 0


async def _found(run: Path | None, connection: Connection) -> dict[str, Any]:
    from runtime.attached.run_status import run_status

    async with seen(run, connection) as looked:
        return await run_status(looked)


def _lines(run: dict[str, Any]) -> Iterator[str]:
    from runtime.attached.run_status import last_checkpoint
    from runtime.report.columns import moment
    from runtime.report.console import describe

    yield (
        f"{run['name']}  {run['state']}, since {moment(run['since'])}, program "
        f"{run['program']}, {run['directory']}"
    )
    if run["result"]:
        yield f"  {describe(run['result'])}"
    elif run["progress"]:
        left = "" if run["eta_seconds"] is None else f"  about {run['eta_seconds']:.0f} s left"
        yield f"  {describe(run['progress'])}{left}"
    if run["settings"]:
        settings = {name: value for name, value in run["settings"].items() if name != "iteration"}
        since = run["settings"].get("iteration")
        yield f"  {describe(settings)}" + ("" if since is None else f", from iteration {since}")
    if run["prediction"]:
        yield f"  {run['prediction']}"
    yield f"  last checkpoint: {last_checkpoint(run, Path())}"
    if run["goes_on_in"]:
        yield f"  continues in {run['goes_on_in']}"
    if run["stragglers"]:
        slow = (f"{worker} {times:.1f} times" for worker, times in run["stragglers"].items())
        yield f"  slower than its peers: {', '.join(slow)}"
    if run["error"]:
        yield f"  {run['error']}"
    for name, process in run["processes"].items():
        cpu = "" if process["cpu_seconds"] is None else f", {process['cpu_seconds']:.1f} s of cpu"
        memory = "" if process["rss_bytes"] is None else f", {process['rss_bytes'] / 2**20:.0f} MiB"
        pid = f", pid {process['pid']}" if "pid" in process else ""
        yield f"  {name:<14} {process['stage']} on {process['machine']}{pid}{cpu}{memory}"
        for actor, doing in process["actors"].items():
            yield f"    {actor}: {doing}"
