"""Shared memory between the processes of one host: arrays written once by their producer and read
in place.

Each process has one `Arena`, a memory file without a name that the system frees with its last user,
however that ends, and for each peer on this host a `Window` onto that peer's arena. A block of an
arena is held by the arrays its owner made in it and by those that readers made; when the last is
gone it is free for the next array. Nothing is copied and nobody calls anything: Python's own
counting of references is the lease.

    owner   array = arena.empty(...)    held by the owner while any view of it lives
            arena.lend(array, reader)   and once more for each message that carries it
    reader  window.array(offset, ...)   its views keep the block; with the last, `on_drop(offset)`
                                        tells the owner
    owner   arena.returned(reader, offset), or arena.forget(reader) when the reader died
"""

from __future__ import annotations

import os
import secrets
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from runtime.errors import MessageError
from runtime.memory.mapping import LARGE_PAGE, Mapping

Array = NDArray[Any]
BLOCK = 4096  # bytes: blocks begin and end with pages
# bytes; a smaller array is copied into its frame sooner than it is lent and returned
IN_PLACE_FROM = 16 << 10


def available() -> bool:
    """Can this system share memory without a name (Linux can)?"""
    return hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()


class _Held(np.ndarray[Any, Any]):
    """The one array that spans a block. All others are views of it: it goes when the last of them
    does."""

    on_gone: Callable[[int], None] | None = None
    offset = 0
    memory: Mapping  # kept as long as an array lies in it

    def __del__(self) -> None:
        if self.on_gone is not None:
            self.on_gone(self.offset)


def _held(memory: Mapping, offset: int, size: int, on_gone: Callable[[int], None]) -> Array:
    """A plain uint8 array of a block; its base is the `_Held` that is missed when all views are
    gone."""
    whole = _Held((size,), np.uint8, memory.memory, offset)
    whole.on_gone = on_gone
    whole.offset = offset
    whole.memory = memory
    return whole.view(np.ndarray)


def writable(array: Array) -> Array | None:
    """An array of shared memory as one that may be written to, by whomever its owner asked to: keep
    `array` meanwhile.

    None for an array that lies elsewhere.
    """
    base: Any = array
    while base is not None and not isinstance(base, _Held):
        base = getattr(base, "base", None)
    if base is None:
        return None
    here = base.memory
    there = base.memory.to_write()
    offset = int(array.__array_interface__["data"][0]) - here.address
    return np.ndarray(array.shape, array.dtype, there.memory, offset, array.strides)


@dataclass(slots=True)
class _Block:
    size: int
    written: bool = True  # some array of the owner's still lives in it
    readers: Counter[Hashable] = field(default_factory=Counter)


class Arena:
    """The memory that this process writes and its peers read. All methods may be called from any
    thread."""

    def __init__(self, name: str, size: int | None = None) -> None:
        """`size` bytes of addresses, the machine's memory by default: pages exist from their first
        use on."""
        self.size = size or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._file = os.memfd_create(f"convoy-{name}-{secrets.token_hex(8)}", os.MFD_CLOEXEC)
        os.ftruncate(self._file, self.size)
        self._memory = Mapping(self._file, self.size, writable=True)
        self._lock = threading.Lock()
        self._blocks: dict[int, _Block] = {}
        self._starts: list[int] = []  # of the blocks, sorted: finds the block of an address
        # (offset, size), sorted, never two that touch
        self._free: list[tuple[int, int]] = [(0, self.size)]
        self._large = 0  # up to here the pages exist, and are large where the system has such
        # offsets whose last array here went; a finaliser may not take the lock
        self._gone: deque[int] = deque()

    def __repr__(self) -> str:
        return f"<arena {len(self._blocks)} blocks, {self.used} bytes>"

    @property
    def address(self) -> str:
        """Where processes of this user on this host find it as long as this process lives, and what
        they find there."""
        path = f"/proc/{os.getpid()}/fd/{self._file}"
        return f"{path} {Path(path).readlink()}"

    @property
    def used(self) -> int:
        """Bytes of the blocks that somebody holds."""
        with self._lock:
            self._sweep()
            return sum(block.size for block in self._blocks.values())

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
        """A new array, 4096-byte aligned, of whatever was there before. MemoryError when no gap is
        large enough."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        wanted = max(BLOCK, -(-count * kind.itemsize // BLOCK) * BLOCK)
        with self._lock:
            self._sweep()
            offset = self._take(wanted)
            self._blocks[offset] = _Block(wanted)
            insort(self._starts, offset)
            known = self._large
            wholes = -(-(offset + wanted) // LARGE_PAGE) * LARGE_PAGE
            self._large = max(known, wholes)
        self._memory.make_large(known, wholes - known)  # without the lock: it may take a while
        memory = _held(self._memory, offset, wanted, self._gone.append)
        return memory[: count * kind.itemsize].view(kind).reshape(shape)

    def place(self, array: Array) -> int | None:
        """Offset of an array that lies in this arena; None for any other, for one that runs
        backwards, and for one that shows bytes more than once, which no reader would believe."""
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
        """A reader is about to get an array that begins there: its block stays until it is
        returned."""
        with self._lock:
            self._blocks[self._start(offset)].readers[reader] += 1

    def returned(self, reader: Hashable, offset: int) -> None:
        """A reader has no view any more of one array it got. Nothing happens if it never got
        one."""
        with self._lock:
            start = self._start(offset)
            block = self._blocks.get(start)
            if block is not None and block.readers[reader] > 0:
                block.readers[reader] -= 1
                self._settle(start, block)

    def forget(self, reader: Hashable) -> None:
        """A reader is gone: whatever it held is returned."""
        with self._lock:
            for start, block in list(self._blocks.items()):
                del block.readers[reader]  # a Counter takes that for a stranger too
                self._settle(start, block)

    def close(self) -> None:
        """Nobody new can map it; the memory goes with its last view. Once only."""
        os.close(self._file)

    def _start(self, offset: int) -> int:
        return self._starts[bisect_right(self._starts, offset) - 1] if self._starts else -1

    def _sweep(self) -> None:
        while self._gone:
            start = self._gone.popleft()
            block = self._blocks[start]
            block.written = False
            self._settle(start, block)

    def _settle(self, start: int, block: _Block) -> None:
        """Free a block that nobody holds."""
        if block.written or any(block.readers.values()):
            return
        del self._blocks[start]
        del self._starts[bisect_left(self._starts, start)]
        end = start + block.size
        index = bisect_left(self._free, (start, 0))
        if index < len(self._free) and self._free[index][0] == end:
            end += self._free.pop(index)[1]
        if index and sum(self._free[index - 1]) == start:
            index -= 1
            start = self._free.pop(index)[0]
        self._free.insert(index, (start, end - start))

    def _take(self, wanted: int) -> int:
        """The first gap that is large enough: low addresses are used again and again, and their
        pages exist."""
        for index, (offset, size) in enumerate(self._free):
            if size >= wanted:
                if size == wanted:
                    del self._free[index]
                else:
                    self._free[index] = (offset + wanted, size - wanted)
                return offset
        raise MemoryError(f"the arena of {self.size} bytes has no room for {wanted} more")


class Window:
    """A peer's arena, mapped for reading (`writable` gives an array of it to whom its owner asked
    to write there)."""

    def __init__(self, address: str, on_drop: Callable[[int], None]) -> None:
        """`on_drop(offset)`, from any thread, when the last view of an array that began there is
        gone. OSError if the peer is gone, is another user's or lives where processes have other
        numbers."""
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
        """`size` bytes, read-only, as uint8. MessageError if they do not lie inside."""
        if offset < 0 or not 0 < size <= self.size - offset:
            raise MessageError(
                "bad_shape", (f"{size} bytes at {offset} of an arena of {self.size} bytes")
            )
        return _held(self._memory, offset, size, self._on_drop)
