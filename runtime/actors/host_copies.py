"""The copies that a process makes of messages whose arrays lie on a device, for receivers that do
not read it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from runtime.actors.cell import Cell
from runtime.messages.device_arrays import copied, is_shared, shares
from runtime.messages.message import Array, Message


class HostCopies:
    """One thread next to the event loop: it starts a copy, and waits for it. It starts with the
    first copy. The compute thread goes on meanwhile. `cells` are the actors of the process."""

    def __init__(self, cells: Mapping[str, Cell]) -> None:
        self._cells = cells
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="host copies")

    def hands_over(self, to: str) -> bool:
        """Return whether an actor lives in this process and reads arrays on its device."""
        cell = self._cells.get(to)
        return cell is not None and cell.actor.reads_device

    def needed(self, to: str, message: Message) -> bool:
        """Return whether arrays of the message lie on a device that the receiver does not read."""
        return message.lane == "bulk" and shares(message) and not self.hands_over(to)

    async def of(self, to: str, message: Message) -> Message:
        """Return the message as the receiver reads it."""
        if not self.needed(to, message):
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
