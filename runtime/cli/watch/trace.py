"""`trace`: record the work of a live run's actors over time, as a file that Perfetto opens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from runtime.cli.arguments import HERE, Connection, seen
from runtime.reasons import reason

if TYPE_CHECKING:
    from runtime.attached.observed_run import ObservedRun
    from runtime.tracing.merging import Merged


def trace(
    action: Literal["start", "stop"],
    run: Path | None = None,
    *,
    iterations: Annotated[int, Parameter(alias="-n", validator=validators.Number(gte=0))] = 0,
    connection: Connection = HERE,
) -> int:
    """Trace a live run, or end the trace and write trace.json into the run directory; open it at
    ui.perfetto.dev.

    `trace stop` also completes a trace that was cut by a death.

    Parameters
    ----------
    action
        "start" or "stop".
    run
        A run directory or its name; by default the only live run, else the newest.
    iterations
        End the trace after so many; by default at `trace stop` or the end of the run.
    """
    return asyncio.run(_done(action, run, connection, iterations))


async def _done(action: str, run: Path | None, connection: Connection, iterations: int) -> int:
    from runtime.cluster.operators.operator_messages import TRACE
    from runtime.errors import ConfigError, ProgramFailed, Refused
    from runtime.report.console import Teller

    console = Teller()
    say = console.say
    async with seen(run, connection) as looked:
        if not await looked.lives():
            merged = await _of_one_that_is_over(action, looked)
            for note in merged.notes:
                console.warn(note)
            say(str(merged))
            return 0
        try:
            async with looked.client() as client:
                lines = await (
                    client.begin_trace(iterations) if action == "start" else client.end_trace()
                )
        except Refused as error:
            raise ProgramFailed(f"{looked.name}: {str(error).partition(': ')[2]}") from None
        for line in lines:
            say(line)
        if action == "stop" and not looked.is_here:
            try:
                say(f"copied here: {await looked.bring(TRACE)}")
            except OSError as error:
                raise ConfigError(
                    [(f"{error.filename}: the trace cannot be written here: {reason(error)}")]
                ) from None
    return 0


async def _of_one_that_is_over(action: str, looked: ObservedRun) -> Merged:
    from runtime.errors import ActorStopped, ProgramFailed
    from runtime.tracing.merging import is_unmerged, merge

    if action == "start" or not is_unmerged(looked.directory):
        why = "" if action == "start" else ": it was not traced"
        raise ActorStopped(f"the run in {looked.place} is over{why}")
    try:
        return await asyncio.to_thread(merge, looked.directory)
    except OSError as error:
        raise ProgramFailed(f"no trace of {looked.name}: {error}") from None
