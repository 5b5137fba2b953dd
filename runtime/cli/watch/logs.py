"""`logs`: show the logs of a run's processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.cli.arguments import HERE, Connection

if TYPE_CHECKING:
    from runtime.report.console import Teller

LOOK_SECONDS = 0.2  # between two looks at a live run's logs


def logs(
    run: str | None = None,
    process: str | None = None,
    *,
    follow: Annotated[bool, Parameter(alias="-f", negative=())] = False,
    connection: Connection = HERE,
) -> int:
    """Show the logs of all processes of a run in the order of their times. Each line begins with
    the name of its process.

    Logs of other machines are shown as far as they have been copied here, at most a second
    late while the run lives.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run, else the newest.
    process
        Show only this process.
    follow
        Stay until the run is over, and show new lines.
    """
    asyncio.run(_shown(run, process, connection, follow))
    return 0


async def _shown(
    run: str | None, process: str | None, connection: Connection, follow: bool
) -> None:
    from runtime.attached.journal_following import followed
    from runtime.cli.watch.run_sampling import named, seen_by
    from runtime.cli.watch.tails import Tails
    from runtime.cluster.operators.operator_messages import LOGS
    from runtime.report.console import Teller

    seen, process = seen_by(run, process, connection)
    async with seen as looked, followed(looked, follow) as end:
        console = Teller()
        tails = Tails(looked.directory, process, console.warn)
        # a process that has ended while the run goes on is no longer in the plan
        names = list(dict.fromkeys([*_processes(looked.directory, console), *tails.names()]))
        if process is not None:
            named(process, names, "process")
        width = len(process) if process is not None else max(map(len, names), default=0)
        lives = follow
        while True:
            lives = lives and await looked.lives()
            await looked.refresh(LOGS)
            for name, line in tails.lines(last=not lives):
                console.say(f"{name:<{width}}  {line}")
            if not lives:
                await end()
                return
            await asyncio.sleep(LOOK_SECONDS)
            console.check()


def _processes(directory: Path, console: Teller) -> list[str]:
    """The names of the processes in the plan of the run. Empty, with a warning, if the plan is
    damaged."""
    from runtime.plan.run_plan import placement_in
    from runtime.records.run_files import Damaged

    try:
        placement = placement_in(directory)
    except Damaged as error:
        console.warn(str(error))
        return []
    return [] if placement is None else [spec.name for spec in placement.processes]
