"""Shared memory of the processes of one host: arrays are written once, and read in place.

Each process has one `Arena`, a memory file without a name, which the system frees with its last
user. It also has a `Window` onto the arena of each peer on this host. A block of an arena is free
again when the last array in it is gone, in the owner and in every reader (`held`).

    owner   array = arena.empty(...)      the owner holds the block while any view of it lives
            Loan: arena.lend(...)         one more hold for each message that carries the array
    reader  Borrow: window.bytes_at(...)  its views hold the block; the last calls `on_drop(offset)`
    owner   arena.returned(...), or arena.forget(reader) when the reader has died
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from runtime.device_place import DevicePlace
from runtime.errors import ActorStopped, MessageError
from runtime.memory.blocks import Blocks
from runtime.memory.device_arena import DEVICE, DeviceArena, DeviceWindow
from runtime.memory.held_arrays import Array, held
from runtime.memory.mapping import LARGE_PAGE, Mapping

BLOCK = 4096  # bytes: blocks begin and end with pages
# bytes; copying a smaller array into its frame is faster than lending and returning it
IN_PLACE_FROM = 16 << 10


class Arena:
    """The memory that this process writes and its peers read. All methods may be called from any
    thread."""

    def __init__(self, name: str, size: int | None = None) -> None:
        """Reserve `size` bytes of addresses, by default as many as the machine has memory. A page
        takes memory only from its first use on."""
        self.size = size or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._file = os.memfd_create(f"convoy-{name}-{secrets.token_hex(8)}", os.MFD_CLOEXEC)
        os.ftruncate(self._file, self.size)
        self._memory = Mapping(self._file, self.size, writable=True)
        self._blocks = Blocks(self.size, BLOCK)
        self._lock = threading.Lock()
        self._large = 0  # pages exist up to this offset, large ones where the system has them

    def __repr__(self) -> str:
        return f"<arena {self._blocks!r}>"

    @property
    def address(self) -> str:
        """The path where processes of this user on this host find the arena while this process
        lives, and the name of the file that must be there."""
        path = f"/proc/{os.getpid()}/fd/{self._file}"
        return f"{path} {Path(path).readlink()}"

    @property
    def range(self) -> tuple[int, int]:
        """The first address of this process's mapping, and its bytes. Low addresses are used
        first."""
        return self._memory.address, self.size

    @property
    def used(self) -> int:
        """The bytes of the blocks that are held."""
        return self._blocks.used

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
        """Return a new array, 4096-byte aligned, with arbitrary content. Raises MemoryError if no
        gap is large enough."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        wanted = self._blocks.rounded(count * kind.itemsize)
        offset = self._blocks.take(wanted)
        with self._lock:
            known = self._large
            wholes = -(-(offset + wanted) // LARGE_PAGE) * LARGE_PAGE
            self._large = max(known, wholes)
        self._memory.make_large(known, wholes - known)  # without the lock: it may take a while
        memory = held(self._memory, offset, wanted, self._blocks.dropped)
        return memory[: count * kind.itemsize].view(kind).reshape(shape)

    def place(self, array: Array) -> int | None:
        """Return the offset of an array in this arena. Returns None for an array outside the arena.
        Also returns None for an array that runs backwards or shows bytes more than once, because a
        reader would reject it."""
        if not array.flags.c_contiguous:
            extent = sum(
                (length - 1) * stride
                for length, stride in zip(array.shape, array.strides, strict=True)
            )
            if (
                any(stride < 0 for stride in array.strides)
                or array.nbytes > extent + array.itemsize
            ):
                return None
        offset = int(array.__array_interface__["data"][0]) - self._memory.address
        return offset if 0 <= offset < self.size else None

    def lend(self, offset: int, reader: Hashable) -> None:
        """Keep the block of an array until `reader` returns it."""
        self._blocks.lend(offset, reader)

    def returned(self, reader: Hashable, offset: int) -> None:
        """Release one hold of a reader that has dropped an array, if the reader has a hold."""
        self._blocks.returned(reader, offset)

    def forget(self, reader: Hashable) -> None:
        """Release all holds of a reader that has died."""
        self._blocks.forget(reader)

    def close(self) -> None:
        """Let no further reader map the arena. Its memory goes with its last view. Call once."""
        os.close(self._file)


class Window:
    """A peer's arena, mapped for reading. `held_arrays.writable` is for processes that their owner
    asked to write."""

    def __init__(self, address: str, on_drop: Callable[[int], None]) -> None:
        """Map the arena at `address` (`Arena.address`). `on_drop(offset)` is called when the last
        view of an array that began at `offset` is gone, from any thread. Raises OSError if the peer
        has died, belongs to another user, or lives in another PID namespace."""
        path, _, name = address.partition(" ")
        self.pid = int(path.split("/")[2])
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if (found := str(Path(path).readlink())) != name:
                raise FileNotFoundError(f"{path} is {found}, not {name}")
            self.size = os.fstat(file).st_size
            self._memory = Mapping(file, self.size, writable=False)
        finally:
            os.close(file)
        self._on_drop = on_drop

    def bytes_at(self, offset: int, size: int) -> Array:
        """Return `size` bytes at `offset` as a read-only uint8 array. Raises MessageError if they
        do not lie inside the arena."""
        if offset < 0 or not 0 < size <= self.size - offset:
            raise MessageError(
                "bad_shape", (f"{size} bytes at {offset} of an arena of {self.size} bytes")
            )
        return held(self._memory, offset, size, self._on_drop)


class Loan:
    """The arrays of one message that stay where they are. Call it with each array: it returns the
    array's offset, or None for an array that must travel."""

    def __init__(self, arena: Arena, reader: int, device: DeviceArena | None = None) -> None:
        """Lend to `reader`, one life of a peer. With 0, a peer that maps no memory, every array
        travels. Arrays with a `place` lie in `device`."""
        self._arena = arena
        self._device = device
        self._reader = reader
        self.offsets: list[int] = []
        self.size = 0

    def __call__(self, array: Any) -> int | None:
        if self._device is not None and not isinstance(array, np.ndarray | np.generic):
            return self._lent_on(self._device, array)
        if not self._reader or array.nbytes < IN_PLACE_FROM or not array.dtype.isnative:
            return None
        offset = self._arena.place(array)
        if offset is not None:
            self._arena.lend(offset, self._reader)
            self.offsets.append(offset)
            self.size += array.nbytes
        return offset

    def _lent_on(self, device: DeviceArena, array: Any) -> int:
        if not self._reader:
            raise ActorStopped("the process that was to read an array on a device has ended")
        offset: int = array.place[0]
        device.lend(offset, self._reader)
        self.offsets.append(offset)
        self.size += array.nbytes
        return offset

    def revoke(self) -> None:
        """Take back all arrays of a message that was not sent."""
        for offset in self.offsets:
            if self._device is not None and offset >= DEVICE:
                self._device.returned(self._reader, offset)
            else:
                self._arena.returned(self._reader, offset)


class Borrow:
    """The arrays of one received message that are read in place. Call it with an offset and a size
    (`received_arrays.Borrow`)."""

    def __init__(self, window: Window | None, device: DeviceWindow | None = None) -> None:
        self.window = window
        self.device = device
        self.size = 0

    def __call__(self, offset: int, size: int) -> Array:
        if self.window is None:
            raise MessageError(
                "bad_shape", (f"{size} bytes at {offset} of shared memory that is not mapped here")
            )
        self.size += size
        return self.window.bytes_at(offset, size)

    def on_device(self, place: DevicePlace) -> Any:
        """Return an array of the sender's memory on a device (`DeviceWindow.array`)."""
        if self.device is None:
            raise MessageError(
                "bad_shape",
                f"{place.size} bytes at {place.offset} of a device's memory that is not open",
            )
        self.size += place.size
        return self.device.array(place)
