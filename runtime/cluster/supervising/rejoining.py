"""Machines that were lost while a run goes on without them: they are tried again until they are
back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from runtime.errors import ConvoyError

FIRST_SECONDS = 5.0  # until the first attempt; each pause is twice as long as the one before
MOST_SECONDS = 60.0


class Rejoining:
    """Calls `take_back(machine)` for each lost machine until it succeeds."""

    def __init__(self, take_back: Callable[[str], Awaitable[None]]) -> None:
        self._take_back = take_back
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"<lost machines: {', '.join(self._tasks) or 'none'}>"

    def lost(self, machine: str) -> None:
        """Try a machine again from now on."""
        if machine not in self._tasks:
            self._tasks[machine] = asyncio.create_task(
                self._tried(machine), name=f"return of {machine}"
            )

    def let_go(self, machine: str) -> None:
        """Try a machine no longer: it leaves, or a person brings it back."""
        task = self._tasks.pop(machine, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Try no machine any longer: the run is over."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tried(self, machine: str) -> None:
        pause = FIRST_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_SECONDS)
            try:
                await self._take_back(machine)
            except ConvoyError:  # it is not back yet
                continue
            del self._tasks[machine]
            return
