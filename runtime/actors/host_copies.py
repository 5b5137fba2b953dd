"""The copies that a process makes of messages whose arrays lie on a device, for receivers that do
not read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from runtime.actors.cell import Cell
from runtime.actors.device_sharing import DeviceSharing
from runtime.messages.device_arrays import copied, is_shared, shared_in
from runtime.messages.message import Array, Message


class HostCopies:
    """One thread next to the event loop: it starts a copy, and waits for it. It starts with the
    first copy. The compute thread goes on meanwhile. `cells` are the actors of the process;
    `process_of` returns the process of any other actor."""

    def __init__(self, cells: Mapping[str, Cell], process_of: Callable[[str], str]) -> None:
        self._cells = cells
        self._process_of = process_of
        self.sharing: DeviceSharing | None = None  # None: no memory of a device is shared
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="host copies")

    def hands_over(self, to: str) -> bool:
        """Return whether an actor reads arrays where they lie on the device of this process, as far
        as the plan says."""
        cell = self._cells.get(to)
        if cell is not None:
            return cell.actor.reads_device
        return self.sharing is not None and to in self.sharing.near

    def needed(self, to: str, message: Message) -> bool:
        """Return whether arrays of the message lie on a device, and the receiver does not read
        them there, or has not said yet that it does."""
        return not self._read(to, message)

    def _read(self, to: str, message: Message) -> bool | None:
        """Return whether the receiver reads all arrays where they lie. None if it must be asked."""
        arrays = shared_in(message) if message.lane == "bulk" else []
        if not arrays:
            return True
        cell = self._cells.get(to)
        if cell is not None:
            return cell.actor.reads_device
        if self.sharing is None:
            return False
        return self.sharing.reads(to, self._process_of(to), arrays)

    async def of(self, to: str, message: Message) -> Message:
        """Return the message as the receiver reads it."""
        if (read := self._read(to, message)) is None and self.sharing is not None:
            await self.sharing.offer(self._process_of(to))
            read = self._read(to, message)
        if read:
            return message
        return await asyncio.get_running_loop().run_in_executor(self._thread, copied, message)

    async def array(self, array: Array) -> Array:
        """Return an array of a message on the host."""
        if not is_shared(array):
            return array
        return await asyncio.get_running_loop().run_in_executor(self._thread, array.on_host)

    def close(self) -> None:
        """Make no more copies."""
        self._thread.shutdown(wait=False, cancel_futures=True)
