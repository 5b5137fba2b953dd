"""`up`: from a checked cluster.toml to an exit code. A run itself is `running`, the same that scripts start."""

from __future__ import annotations

import asyncio

from runtime.cluster.launchers import Nursery
from runtime.cluster.process import event_loop_factory
from runtime.report.console import RunConsole
from runtime.runs.checking import Checked
from runtime.runs.run import Run
from runtime.runs.signals import Signals


def run(checked: Checked, console: RunConsole, nursery: Nursery | None = None) -> int:
    """Run to the end; returns the exit code, having told the person everything."""
    if checked.loaded.config.simulation.clock == "virtual":
        from runtime.runs import virtual_run

        return virtual_run.run(checked, console)
    try:
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            return runner.run(_live(checked, console, nursery))
    finally:
        console.close()


async def _live(checked: Checked, console: RunConsole, nursery: Nursery | None) -> int:
    loaded = checked.loaded
    run = Run(checked.placement, loaded.config, options=loaded.options, console=lambda: console, nursery=nursery)
    await run.start()
    with Signals(run, console.say) as signals:
        console.say(f"run directory {run.directory}")
        if run.metrics_url:
            console.say(f"metrics    {run.metrics_url} lists every process")
        error = await run.ended()
    if error is not None:
        return error.exit_code
    return 128 + signals.number if signals.number else 0
