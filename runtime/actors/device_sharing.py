"""The memory on a device that a process shares with peers on the same device: the offer to open it,
and the peers that have done so.

The driver of each process must agree, so a peer is asked before the first array goes there. If it
cannot open the memory, arrays go there through host memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import numpy as np

from runtime.errors import ConvoyError
from runtime.memory.device_arena import DEVICE, SPAN, DeviceArena, DeviceMemory
from runtime.messages.device_arrays import SharedArray
from runtime.messages.message import Array, Message, message
from runtime.transport.shared_arena import SharedMemory


@message
class OpenDevice(Message):
    """A process asks a peer to open its memory on their device: the name of the device, the bytes
    of each allocation, and the handles of CUDA IPC of the allocations and of the events, one row
    each."""

    process: str
    device: str
    sizes: tuple[int, ...]
    handles: Array
    events: Array


@message
class DeviceOpened(Message):
    """The actors that read this memory. There are none if it cannot be opened, for the reason
    `why`."""

    readers: tuple[str, ...]
    why: str = ""


class DeviceSharing:
    """The memory `arena` on the device of this process. `near` are the actors of other processes
    that compute on the same device, as the plan says. `helper_of(process)` is the actor that
    answers for a process, and `ask(helper, offer)` asks it."""

    def __init__(
        self,
        process: str,
        arena: DeviceArena,
        near: Collection[str],
        helper_of: Callable[[str], str],
    ) -> None:
        self.arena = arena
        self.near = frozenset(near)
        self.helper_of = helper_of
        self.ask: Callable[[str, OpenDevice], Awaitable[DeviceOpened]] | None = None
        self.shared: SharedMemory | None = None  # the memory of peers
        self._process = process
        # process -> the actors that read the memory, and the number of allocations that it opened
        self._readers: dict[str, tuple[frozenset[str], int]] = {}
        self._offers: dict[str, asyncio.Task[None]] = {}
        self._refused = False

    def __repr__(self) -> str:
        return f"<{self.arena!r}, opened by {sorted(self._readers)}>"

    def begin(self, memory: DeviceMemory) -> Callable[[int], tuple[Any, int] | None] | None:
        """Share memory of this device. Returns the source of memory for arrays; None if no peer is
        near, or if the driver refuses."""
        return self.arena.empty if self.near and self.arena.begin(memory) else None

    def reads(self, actor: str, process: str, arrays: Collection[SharedArray]) -> bool | None:
        """Whether an actor of another process reads these arrays where they lie. None if the
        process must first be asked."""
        if actor not in self.near or self.arena.memory is None:
            return False
        if any(array.place is None for array in arrays):
            return False
        known = self._readers.get(process)
        if known is None:
            return None
        readers, opened = known
        if actor not in readers:
            return False
        number = max((array.place[0] - DEVICE) // SPAN for array in arrays if array.place)
        return True if number < opened else None

    async def offer(self, process: str) -> None:
        """Ask a peer to open the memory. All that ask at the same time share one question."""
        task = self._offers.get(process)
        if task is None:
            task = self._offers[process] = asyncio.create_task(self._offer(process))
            task.add_done_callback(lambda _: self._offers.pop(process, None))
        await asyncio.shield(task)

    async def _offer(self, process: str) -> None:
        arena = self.arena
        count = len(arena.handles)
        if self.ask is None or arena.memory is None:
            return
        offer = OpenDevice(
            process=self._process,
            device=arena.memory.name,
            sizes=tuple(arena.sizes[:count]),
            handles=_rows(arena.handles[:count]),
            events=_rows(arena.events),
        )
        try:
            found = await self.ask(self.helper_of(process), offer)
        except ConvoyError:  # the peer has died, and the message that waits fails with it
            return
        if found.why and not self._refused:
            self._refused = True
            logging.getLogger(f"convoy.{self._process}").warning(
                "arrays for %s go through host memory: %s", process, found.why
            )
        self._readers[process] = frozenset(found.readers), count

    async def opened(self, offer: OpenDevice, readers: tuple[str, ...]) -> DeviceOpened:
        """Open the memory of a peer on the device of this process, which `readers` here read.
        Return the answer to its offer."""
        memory = self.arena.memory
        if self.shared is None or memory is None:
            return DeviceOpened(readers=())
        if offer.device != memory.name:
            return DeviceOpened(readers=(), why=f"process {self._process} uses another device")
        try:
            handles, events = map(_handles, (offer.handles, offer.events))
            await self.shared.open_device(offer.process, handles, offer.sizes, events)
        except ValueError as error:
            return DeviceOpened(readers=(), why=f"process {self._process}: {error}")
        return DeviceOpened(readers=readers)

    def forget(self, process: str) -> None:
        """Forget a peer that has ended."""
        self._readers.pop(process, None)


def _rows(handles: list[bytes]) -> Array:
    return np.frombuffer(b"".join(handles), np.uint8).reshape(len(handles), -1)


def _handles(rows: Array) -> list[bytes]:
    return [row.tobytes() for row in rows]
