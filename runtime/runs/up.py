"""`up`: from a checked cluster.toml to an exit code. A run itself is `run.Run`, the same that scripts start."""

from __future__ import annotations

import asyncio

from runtime.cluster.launcher import Early
from runtime.report.console import RunConsole
from runtime.runs.checking import Checked
from runtime.runs.run import Run
from runtime.runs.signals import Signals


def run(checked: Checked, console: RunConsole, early: Early | None = None) -> int:
    """Run to the end; returns the exit code, having told the person everything."""
    loaded = checked.loaded
    for warning in checked.warnings:
        console.warn(warning)
    try:
        made = Run(checked.placement, loaded.config, options=loaded.options, console=lambda: console, early=early)
        with asyncio.Runner(loop_factory=made.loop_factory) as runner:
            return runner.run(_live(made, console))
    finally:
        console.close()


async def _live(run: Run, console: RunConsole) -> int:
    with Signals(run, console.say) as signals:
        await run.start()
        console.say(f"run directory {run.directory}")
        if run.metrics_url:
            console.say(f"metrics    {run.metrics_url} lists every process")
        error = await run.ended()
    if error is not None:
        return error.exit_code
    if run.summary:
        console.say(run.summary)
    return 128 + signals.number if signals.number else 0
