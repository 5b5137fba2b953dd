"""Machines that come back while a run goes on: a machine that was lost is tried until it is back,
and a machine that a person wants is tried at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from runtime.errors import ConvoyError, LaunchError

FIRST_SECONDS = 5.0  # until the first attempt; each pause is twice as long as the one before
MOST_SECONDS = 60.0


class Rejoining:
    """Calls `ready(machine)`, which may wait for a person or for a network, and then
    `start(machine)`, which starts its processes. A machine has one attempt at a time, and no
    machine waits for another."""

    def __init__(
        self,
        ready: Callable[[str], Awaitable[None]],
        start: Callable[[str], Coroutine[None, None, None]],
    ) -> None:
        self._ready = ready
        self._start = start
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}  # those of them that people wait for
        self._lost: set[str] = set()  # machines that are tried until they are back

    def __repr__(self) -> str:
        return f"<lost machines: {', '.join(sorted(self._lost)) or 'none'}>"

    def lost(self, machine: str) -> None:
        """Try a machine again from now on."""
        self._lost.add(machine)
        if machine not in self._tasks:
            self._begin(machine, self._tried(machine))

    async def at_once(self, machine: str) -> None:
        """Bring a machine back for a person. Raises LaunchError if that is impossible, or if the
        machine leaves meanwhile."""
        while machine in self._tasks and machine not in self._asked:
            await self._stop(machine)
        if machine not in self._asked:
            self._asked[machine] = self._begin(machine, self._back(machine))
        task = self._asked[machine]
        await asyncio.wait([task])
        if task.cancelled():
            raise LaunchError(f"machine '{machine}' was let go before it was back")
        if task.exception() is not None and machine in self._lost:
            self.lost(machine)
        task.result()

    async def let_go(self, machine: str) -> None:
        """Try a machine no longer, since it leaves. Processes that are being started there have
        started when this returns."""
        self._lost.discard(machine)
        await self._stop(machine)

    async def close(self) -> None:
        """Try no machine any longer: the run is over."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop(self, machine: str) -> None:
        if (task := self._tasks.get(machine)) is not None:
            task.cancel()
            await asyncio.wait([task])

    def _begin(self, machine: str, attempt: Coroutine[None, None, None]) -> asyncio.Task[None]:
        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.pop(machine)
            self._asked.pop(machine, None)

        task = asyncio.create_task(attempt, name=f"return of {machine}")
        self._tasks[machine] = task
        task.add_done_callback(ended)
        return task

    async def _tried(self, machine: str) -> None:
        pause = FIRST_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_SECONDS)
            try:
                await self._back(machine)
            except ConvoyError:  # it is not back yet
                continue
            return

    async def _back(self, machine: str) -> None:
        await self._ready(machine)
        starting = asyncio.create_task(self._start(machine), name=f"start on {machine}")
        try:
            await asyncio.shield(starting)
            self._lost.discard(machine)
        except asyncio.CancelledError:
            # the run knows no process that is half started, so it could not end it
            await asyncio.gather(starting, return_exceptions=True)
            raise
