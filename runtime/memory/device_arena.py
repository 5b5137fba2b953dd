"""Memory on a device that processes of one host share: arrays are written once, and read in place.

`DeviceArena` is the memory that a process writes, `DeviceWindow` the memory of a peer, opened here.
They follow the rules of the arena in host memory (`arena`): a block is free when the last array in
it is gone, in the owner and in every reader. The device works behind the host, so a reader counts
as long as its work that reads the array is queued.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from runtime.device_place import DevicePlace
from runtime.errors import MessageError
from runtime.memory.blocks import Blocks

# Offsets from here on lie on a device: in `answers` they stand next to offsets of host memory.
DEVICE = 1 << 62
SPAN = 1 << 40  # bytes of offsets for each allocation
UNIT = 512  # bytes: blocks begin where kernels read fastest
LEAST = 32 << 20  # bytes of the first allocation; each later one is as large as all before it
PAGE = 2 << 20  # the driver allocates no less


def room_for(sizes: Iterable[int]) -> int:
    """The bytes that a process allocates to share arrays of these sizes, in this order, if none of
    them is free before the last has been made."""
    total = left = LEAST
    for size in sizes:
        rounded = -(-size // UNIT) * UNIT
        if rounded > left:
            left = _allocated(rounded, total)
            total += left
        left -= rounded
    return total


def _allocated(size: int, before: int) -> int:
    """The bytes of an allocation that holds `size` bytes, after `before` bytes of earlier ones."""
    return -(-max(size, before) // PAGE) * PAGE


class DeviceMemory(Protocol):
    """The driver of one device (`ops.cuda.copies.peer_memory`). Its errors tell why the driver
    refuses."""

    @property
    def name(self) -> str:
        """The name of the device, the same in every process."""
        ...

    def event_handles(self) -> list[bytes]: ...
    def allocate(self, size: int) -> tuple[int, bytes]: ...
    def array(
        self,
        address: int,
        size: int,
        shape: Sequence[int],
        dtype: Any,
        strides: Sequence[int],
        owner: object,
    ) -> Any: ...
    def open(self, handle: bytes) -> int: ...
    def open_event(self, handle: bytes) -> int: ...
    def wait(self, event: int) -> None: ...
    def close(self, address: int) -> None: ...
    def close_event(self, event: int) -> None: ...
    def when_done(self, call: Callable[[], object]) -> None: ...


class Lease:
    """Held by the views of one array: calls `on_gone(offset)` when the last of them is gone."""

    def __init__(self, offset: int, on_gone: Callable[[int], None], keeps: object = None) -> None:
        self._offset = offset
        self._on_gone = on_gone
        self._keeps = keeps

    def __del__(self) -> None:
        self._on_gone(self._offset)


class DeviceArena:
    """The memory on a device that this process writes and its peers read. Without `begin`, it has
    none. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.memory: DeviceMemory | None = None
        self.handles: list[bytes] = []  # of the allocations
        self.sizes: list[int] = []
        self.events: list[bytes] = []  # handles
        self._blocks = Blocks(0, UNIT)
        self._addresses: list[int] = []
        self._lock = threading.Lock()
        self._full = False

    def __repr__(self) -> str:
        return f"<device arena {self._blocks!r} of {sum(self.sizes)}>"

    @property
    def used(self) -> int:
        """The bytes of the blocks that are held."""
        return self._blocks.used

    def begin(self, memory: DeviceMemory) -> bool:
        """Share memory of this device from now on. Returns False if the driver refuses, which is
        reported in one line."""
        with self._lock:
            if self.memory is None and not self._full:
                try:
                    self.events = memory.event_handles()
                except ValueError as error:
                    self._refused(str(error))
                    return False
                self.memory = memory
                self._grow(memory, LEAST)
            return bool(self.handles)

    def empty(self, size: int) -> tuple[Any, int] | None:
        """Return a new uint8 array of `size` bytes on the device, and its offset. None if there is
        no room, which is reported once."""
        memory = self.memory
        if memory is None:
            return None
        with self._lock:
            try:
                offset = self._blocks.take(size)
            except MemoryError:
                if not self._grow(memory, self._blocks.rounded(size)):
                    return None
                offset = self._blocks.take(size)
        number, place = divmod(offset, SPAN)
        lease = Lease(offset, self._blocks.dropped)
        address = self._addresses[number] + place
        return memory.array(address, size, (size,), np.uint8, (), lease), DEVICE + offset

    def _grow(self, memory: DeviceMemory, size: int) -> bool:
        """Allocate at least `size` bytes more."""
        if self._full:
            return False
        wanted = _allocated(size, sum(self.sizes))
        try:
            address, handle = memory.allocate(wanted)
        except ValueError as error:
            self._refused(str(error))
            return False
        self._blocks.add(len(self.sizes) * SPAN, wanted)
        self._addresses.append(address)
        self.sizes.append(wanted)
        self.handles.append(handle)
        return True

    def _refused(self, why: str) -> None:
        self._full = True
        logging.getLogger("convoy.memory").warning(
            "arrays for other processes on this device go through host memory: %s", why
        )

    def lend(self, offset: int, reader: object) -> None:
        """Keep the block of an array until `reader` returns it."""
        self._blocks.lend(offset - DEVICE, reader)

    def returned(self, reader: object, offset: int) -> None:
        """Release one hold of a reader that has dropped an array, if the reader has a hold."""
        self._blocks.returned(reader, offset - DEVICE)

    def forget(self, reader: object) -> None:
        """Release all holds of a reader that has died."""
        self._blocks.forget(reader)


class _Opened:
    """One allocation of a peer, opened here. It is closed when no array in it is left."""

    def __init__(self, memory: DeviceMemory, handle: bytes, size: int) -> None:
        self.size = size
        self.address = memory.open(handle)
        self._memory = memory

    def __del__(self) -> None:
        if hasattr(self, "_memory"):  # it is open
            self._memory.close(self.address)


class DeviceWindow:
    """A peer's memory on the device of this process, opened for reading. `on_drop(offset)` is
    called when the last view of an array that began at `offset` is gone and the device has read
    it."""

    def __init__(self, memory: DeviceMemory, on_drop: Callable[[int], None]) -> None:
        self._memory = memory
        self._on_drop = on_drop
        self._opened: list[_Opened] = []
        self._events: list[int] = []

    def __repr__(self) -> str:
        return f"<device window {sum(opened.size for opened in self._opened)} bytes>"

    def __del__(self) -> None:
        for event in self._events:
            self._memory.close_event(event)

    def open(self, handles: Sequence[bytes], sizes: Sequence[int], events: Sequence[bytes]) -> None:
        """Open the allocations and events that are new here. Raises ValueError if the driver
        refuses."""
        for handle in events[len(self._events) :]:
            self._events.append(self._memory.open_event(handle))
        known = len(self._opened)
        for handle, size in zip(handles[known:], sizes[known:], strict=True):
            self._opened.append(_Opened(self._memory, handle, size))

    def array(self, place: DevicePlace) -> Any:
        """Return the array at a place. Work that is queued from now on waits for its event. Raises
        MessageError if it does not lie in memory that is open here."""
        offset, size, event, shape, dtype, strides = place
        number, start = divmod(offset - DEVICE, SPAN)
        if not (0 <= number < len(self._opened) and 0 <= event < len(self._events)) or (
            not 0 < size <= self._opened[number].size - start
        ):
            raise MessageError(
                "bad_shape",
                (f"{size} bytes at {offset} of a device's memory that is not open here"),
            )
        opened = self._opened[number]
        try:
            self._memory.wait(self._events[event])
        except ValueError as error:
            raise MessageError("no_device", f"{size} bytes on a device: {error}") from None
        gone = partial(self._memory.when_done, partial(self._on_drop, offset))
        lease = Lease(offset, lambda _: gone(), opened)
        return self._memory.array(opened.address + start, size, shape, dtype, strides, lease)
