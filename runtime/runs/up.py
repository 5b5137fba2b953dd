"""`up`: from a checked cluster.toml to an exit code. A run itself is `run.Run`, the same that scripts start."""

from __future__ import annotations

import asyncio

from runtime.cluster.launcher import Early
from runtime.cluster.warnings import WARNING
from runtime.report.console import RunConsole
from runtime.runs.checking import Checked
from runtime.runs.run import Run
from runtime.runs.signals import Signals


def run(checked: Checked, console: RunConsole, early: Early | None = None) -> int:
    """Run to the end; returns the exit code, having told the person everything."""
    loaded = checked.loaded
    try:
        made = Run(checked.placement, loaded.config, options=loaded.options, console=lambda: console, early=early)
        with asyncio.Runner(loop_factory=made.loop_factory) as runner:
            return runner.run(_live(made, console, checked.warnings))
    finally:
        console.close()


async def _live(run: Run, console: RunConsole, warnings: tuple[str, ...]) -> int:
    with Signals(run, console.say) as signals:
        await run.start()
        for text in warnings:
            console.say(f"{WARNING:<10} {text}")
        console.say(f"run directory {run.directory}")
        if run.metrics_url:
            console.say(f"metrics    {run.metrics_url} lists every process")
        error = await run.ended()
    if error is not None:
        return error.exit_code
    if run.summary:
        console.say(run.summary)
    return 128 + signals.number if signals.number else 0
