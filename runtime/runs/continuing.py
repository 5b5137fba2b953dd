"""Reasons for another run to follow one that still runs: a client wants other workers or machines,
or a machine is about to be taken away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from runtime.cluster.clients import Scale, Scaled
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError
from runtime.plan.topology import SUPERVISOR

T = TypeVar("T")
# event: the last of a run that another run follows, unless it has failed before
CONTINUED = "continued"
LEAVING = "leaving"  # event: a machine is about to be taken away
Scaling = Callable[[Scale], Awaitable[Scaled]]


async def not_scaled(wish: Scale) -> Scaled:
    """Refuse to scale a run that no other can follow. Raises ConvoyError."""
    raise ConvoyError("this run was started by a script, and only runs of `up` can be scaled")


class Continuing:
    """Changes a run, or replaces it by another. `change` changes machines while the run goes on,
    and returns None if that is impossible. `scale` makes the run that follows, `save` asks for a
    checkpoint, and `tell` reports events."""

    def __init__(
        self,
        change: Callable[[Scale], Awaitable[Scaled | None]],
        scale: Scaling,
        save: Callable[[], Awaitable[None]],
        tell: Callable[[str, str, dict[str, Any]], None],
    ) -> None:
        self._change = change
        self._scale = scale
        self._save = save
        self._tell = tell
        self._tasks: set[asyncio.Task[Any]] = set()
        self.done = False  # another run follows

    def __repr__(self) -> str:
        return (
            "<continuing: "
            f"{'done' if self.done else 'being done' if self._tasks else 'nobody asks'}>"
        )

    async def scale(self, wish: Scale) -> Scaled:
        """Change or replace the run as a client wishes. Raises ConvoyError with the reason if that
        is impossible.

        The client may leave meanwhile, since a run that hands over cannot go back.
        """
        return await asyncio.shield(self._apart(self._scaled(wish), "scaling"))

    def machine_leaves(self, machine: str, seconds: float) -> None:
        """Continue without a machine that will be taken away within `seconds` seconds, or at least
        save."""
        self._tell(SUPERVISOR, LEAVING, {"machine": machine, "seconds": seconds})
        self._apart(self._without(machine), f"leaving of {machine}")

    async def close(self) -> None:
        """End everything that is under way: the run is over."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _scaled(self, wish: Scale) -> Scaled:
        if (changed := await self._change(wish)) is not None:
            return changed
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
                "the run's state is saved"
            )
            self._tell(SUPERVISOR, WARNING, {"text": text})
            await self._save()

    def _apart(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start a task that ends with the run."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
