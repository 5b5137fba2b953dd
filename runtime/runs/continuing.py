"""What lets another run follow one: a client that wants other workers or machines, a machine that
is told to go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from runtime.cluster.clients import Scale, Scaled
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError
from runtime.plan.topology import SUPERVISOR

T = TypeVar("T")
CONTINUED = "continued"  # event: the last of a run that another follows, before it has failed
LEAVING = "leaving"  # event: a machine was told to go
Scaling = Callable[[Scale], Awaitable[Scaled]]


async def not_scaled(wish: Scale) -> Scaled:
    """Of a run that no other can follow. ConvoyError."""
    raise ConvoyError("this run was started by a script, and only those of `up` are scaled")


class Continuing:
    """Of one run. `scale` makes the one that follows, `save` has a checkpoint written, `tell` hears
    of the events."""

    def __init__(
        self,
        scale: Scaling,
        save: Callable[[], Awaitable[None]],
        tell: Callable[[str, str, dict[str, Any]], None],
    ) -> None:
        self._scale = scale
        self._save = save
        self._tell = tell
        self._tasks: set[asyncio.Task[Any]] = set()
        self.done = False  # another follows

    def __repr__(self) -> str:
        return (
            "<continuing: "
            f"{'done' if self.done else 'being done' if self._tasks else 'nobody asks'}>"
        )

    async def scale(self, wish: Scale) -> Scaled:
        """A client wants it. It may leave meanwhile: a run that hands over cannot go back.
        ConvoyError in words if it cannot be."""
        return await asyncio.shield(self._apart(self._scaled(wish), "scaling"))

    def machine_leaves(self, machine: str, seconds: float) -> None:
        """A machine was told to go, and stays so many seconds at most: go on without it, or at
        least save."""
        self._tell(SUPERVISOR, LEAVING, {"machine": machine, "seconds": seconds})
        self._apart(self._without(machine), f"leaving of {machine}")

    async def close(self) -> None:
        """The run is over: so is what was under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _scaled(self, wish: Scale) -> Scaled:
        scaled = await self._scale(wish)
        self.done = True
        self._tell(SUPERVISOR, CONTINUED, {"in": scaled.run, "from": scaled.at})
        return scaled

    async def _without(self, machine: str) -> None:
        try:
            await self._scaled(Scale(leaving=machine))
        except ConvoyError as why:
            text = (
                f"machine '{machine}' leaves, and the run cannot go on without it: {why}; "
                "what there is is saved"
            )
            self._tell(SUPERVISOR, WARNING, {"text": text})
            await self._save()

    def _apart(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """A task of its own, which ends with the run."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
