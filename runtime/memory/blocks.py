"""The blocks of memory that processes share, and the processes that hold each of them.

The owner holds a block while it has an array there. A reader holds it once for each message that
carries an array in it. A block that is held no more is free. No memory here, only offsets.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from runtime.memory.gaps import Gaps


@dataclass(slots=True)
class _Block:
    size: int
    written: bool = True  # the owner still has an array in the block
    readers: Counter[Hashable] = field(default_factory=Counter)


class Blocks:
    """Blocks in [0, size) that begin and end at multiples of `unit` bytes. All methods may be
    called from any thread."""

    def __init__(self, size: int, unit: int) -> None:
        self._unit = unit
        self._lock = threading.Lock()
        self._blocks: dict[int, _Block] = {}
        self._starts: list[int] = []  # of the blocks, sorted, to find the block of an address
        self._gaps = Gaps(size)
        # offsets of blocks whose last array at the owner is gone; a finaliser cannot take the lock
        self._gone: deque[int] = deque()

    def __repr__(self) -> str:
        return f"{len(self._blocks)} blocks, {self.used} bytes"

    @property
    def used(self) -> int:
        """The bytes of the blocks that are held."""
        with self._lock:
            self._sweep()
            return sum(block.size for block in self._blocks.values())

    def rounded(self, size: int) -> int:
        """Return the bytes of the block that holds `size` bytes."""
        return max(self._unit, -(-size // self._unit) * self._unit)

    def add(self, start: int, size: int) -> None:
        """Make `size` more bytes at `start` usable."""
        with self._lock:
            self._gaps.give(start, size)

    def take(self, size: int) -> int:
        """Take a block for `size` bytes, and return its offset. Raises MemoryError if no gap is
        large enough."""
        wanted = self.rounded(size)
        with self._lock:
            self._sweep()
            offset = self._gaps.take(wanted)
            self._blocks[offset] = _Block(wanted)
            insort(self._starts, offset)
        return offset

    def dropped(self, start: int) -> None:
        """Note that the owner's last array in a block is gone. A finaliser may call this."""
        self._gone.append(start)

    def lend(self, offset: int, reader: Hashable) -> None:
        """Keep the block of an array until `reader` returns it."""
        with self._lock:
            self._blocks[self._start(offset)].readers[reader] += 1

    def returned(self, reader: Hashable, offset: int) -> None:
        """Release one hold of a reader that has dropped an array, if the reader has a hold."""
        with self._lock:
            start = self._start(offset)
            block = self._blocks.get(start)
            if block is not None and block.readers[reader] > 0:
                block.readers[reader] -= 1
                self._settle(start, block)

    def forget(self, reader: Hashable) -> None:
        """Release all holds of a reader that has died."""
        with self._lock:
            for start, block in list(self._blocks.items()):
                del block.readers[reader]  # a Counter: no error for an unknown reader
                self._settle(start, block)

    def _start(self, offset: int) -> int:
        return self._starts[bisect_right(self._starts, offset) - 1] if self._starts else -1

    def _sweep(self) -> None:
        while self._gone:
            start = self._gone.popleft()
            block = self._blocks[start]
            block.written = False
            self._settle(start, block)

    def _settle(self, start: int, block: _Block) -> None:
        """Free the block if neither the owner nor a reader holds it."""
        if block.written or any(block.readers.values()):
            return
        del self._blocks[start]
        del self._starts[bisect_left(self._starts, start)]
        self._gaps.give(start, block.size)
