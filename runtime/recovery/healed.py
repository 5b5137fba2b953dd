"""A run that was resumed from the memory of the run before: how long the recovery took, and when
the state is saved on disk."""

from __future__ import annotations

import asyncio

from runtime.errors import ConvoyError
from runtime.plan.topology import SUPERVISOR
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from runtime.runs.healing import Memory
from runtime.runs.run import Run

HEALED = "healed"  # the event of the supervisor
SAVED = "checkpoint"  # an event of the lead: from now on the memory is not needed any more


class Healed:
    """Follows one run that was resumed from `memory`. The memory stays open until the run has
    written a checkpoint."""

    def __init__(
        self, memory: Memory, run: Run, directory: RunDirectory, console: RunConsole
    ) -> None:
        self._memory = memory
        self._run = run
        self._directory = directory
        self._console = console
        self._task: asyncio.Task[None] | None = None
        self._open = True

    def __repr__(self) -> str:
        return f"<healed by {self._memory.holder}, {'not yet' if self._open else 'and'} saved>"

    def follow(self) -> None:
        """Follow the events of the run, which has been started, until `forget`."""
        if self._task is None:
            self._task = asyncio.create_task(self._follow(), name="healed")

    async def forget(self) -> None:
        """Close the memory: no run will be resumed from it any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._close()

    async def _follow(self) -> None:
        memory = self._memory
        try:
            async for event in self._run.events():
                if event.actor == SUPERVISOR and event.name == "began":
                    seconds = asyncio.get_running_loop().time() - memory.since
                    fields = {"by": memory.holder, "at": memory.at, "seconds": round(seconds, 3)}
                    self._directory.event(SUPERVISOR, HEALED, fields)
                    self._console.event(SUPERVISOR, HEALED, fields)
                elif event.name == SAVED:
                    self._close()
        except ConvoyError:
            pass  # the error is reported to the task that waits for the end of the run

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._memory.close()
