"""A run that began with what another had in memory: how long that took, and when it is on a
disk."""

from __future__ import annotations

import asyncio

from runtime.errors import ConvoyError
from runtime.plan.topology import SUPERVISOR
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from runtime.runs.healing import Memory
from runtime.runs.run import Run

HEALED = "healed"  # the event
SAVED = "checkpoint"  # a lead's event: what the run began with is not needed any more


class Healed:
    """Of one run, which begins with `memory`: that stays open until the run has saved itself."""

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
        """The run is started: hear of it until `forget`."""
        if self._task is None:
            self._task = asyncio.create_task(self._follow(), name="healed")

    async def forget(self) -> None:
        """Nothing goes on from that memory any more."""
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
            pass  # whoever waits for the end of the run is told

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._memory.close()
