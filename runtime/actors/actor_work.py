"""The array work of an actor, and the memory and the folder that the runtime gives to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from runtime.actors.actor_state import ActorState
from runtime.messages.message import Array

T = TypeVar("T")
# bytes: an update of 100 KB (LeNet's conv2) takes 0.1 ms, as long as the way to the thread and back
BRIEF = 256 << 10


class Working:
    """The methods with which an actor does array work and gets memory for it."""

    _runtime: ActorState

    def memory(self, size: int) -> Array:
        """Return a new uint8 array of `size` bytes. Arrays made from it reach actors on the same
        host without a copy, so they must not be written to after they were sent. The memory is free
        once the last view of it, in any process, is gone. May be called from the compute thread."""
        return self._runtime.host.memory(size)

    async def compute(
        self, label: str, work: Callable[..., T], *args: Any, size: int | None = None
    ) -> T:
        """Run array work in the process's compute thread, or on the actor's emulated device, and
        return its result. `size`: the bytes of arrays in host memory that the work reads or writes,
        if it passes over them once or twice and does nothing else. Work of at most BRIEF bytes runs
        on the event loop if the thread is idle, because handing it over would take longer than
        doing it."""
        state = self._runtime
        if size is not None and size <= BRIEF:
            return await state.device.run_brief(state.name, label, work, *args)
        return await state.device.run(state.name, label, work, *args)

    async def race(self, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run array work at once, at the same time as other array work of the process. Nothing
        prevents two pieces of work from using the same array."""
        state = self._runtime
        return await state.host.compute.race(state.name, label, work, *args)

    @property
    def run_directory(self) -> Path:
        """The folder that holds this run's files."""
        return self._runtime.host.directory
