"""The array work of an actor, and the memory and the folder that the runtime gives to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from runtime.actors.actor_state import ActorState
from runtime.memory.device_arena import DeviceMemory
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

    @property
    def memory_range(self) -> tuple[int, int] | None:
        """The first address and the bytes of the range that large blocks of `memory` lie in, low
        addresses first. None if this process shares no memory."""
        return self._runtime.host.memory_range

    @property
    def memory_file(self) -> str:
        """The path of the file that `memory_range` maps. Processes of this user on this host can
        open it while this process lives. "" if this process shares no memory."""
        return self._runtime.host.memory_file

    def device_memory(self, memory: DeviceMemory) -> Callable[[int], tuple[Any, int] | None] | None:
        """Share memory of the device that this process computes on, by its driver `memory`. Returns
        a function that returns a new uint8 array of so many bytes there, and its offset, or None if
        there is no room. Such arrays reach actors of other processes on this device without a copy.
        Returns None if there are no such actors, or if the driver refuses. Call it in the compute
        thread."""
        return self._runtime.host.device_memory(memory)

    def hands_over(self, to: str) -> bool:
        """Whether another actor gets this actor's arrays where they lie on a device: it lives in
        the same process and `reads_device`, or it computes on the same device in another process.
        If the driver does not let that process read them, it gets copies on the host."""
        return self._runtime.host.hands_over(to)

    async def to_host(self, array: Array) -> Array:
        """Return an array of a message in host memory. One on a device is copied once, next to the
        event loop and to the compute thread."""
        return await self._runtime.host.to_host(array)

    async def compute(
        self, label: str, work: Callable[..., T], *args: Any, size: int | None = None
    ) -> T:
        """Run array work in the process's compute thread, or on the actor's emulated device, and
        return its result. `size`: the bytes of arrays in host memory that the work reads or writes,
        if it passes over them once or twice and does nothing else. Work of at most BRIEF bytes runs
        on the event loop if the thread is idle, because handing it over would take longer than
        doing it."""
        if not isinstance(label, str) or not callable(work):
            raise TypeError(
                f"compute(label, function, *arguments): found {label!r:.60} as the label and "
                f"{work!r:.60} as the function; give a str and a function that is not called yet"
            )
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
