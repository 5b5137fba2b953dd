"""The free gaps of a range of addresses: first fit, and adjacent gaps are joined."""

from __future__ import annotations

from bisect import bisect_left


class Gaps:
    """The free bytes of [0, size). No memory and no lock here."""

    def __init__(self, size: int) -> None:
        self._size = size
        # (offset, size), sorted; no two gaps touch
        self._free: list[tuple[int, int]] = [(0, size)]

    def __repr__(self) -> str:
        return f"<{len(self._free)} gaps in {self._size} bytes>"

    def take(self, wanted: int) -> int:
        """Take `wanted` bytes from the first gap that is large enough, and return their offset.

        First fit uses low addresses again and again, whose pages exist already. Raises MemoryError
        if no gap is large enough.
        """
        for index, (offset, size) in enumerate(self._free):
            if size >= wanted:
                if size == wanted:
                    del self._free[index]
                else:
                    self._free[index] = (offset + wanted, size - wanted)
                return offset
        raise MemoryError(f"the arena of {self._size} bytes has no room for {wanted} more")

    def give(self, start: int, size: int) -> None:
        """Make `size` bytes at `start` a gap again."""
        end = start + size
        index = bisect_left(self._free, (start, 0))
        if index < len(self._free) and self._free[index][0] == end:
            end += self._free.pop(index)[1]
        if index and sum(self._free[index - 1]) == start:
            index -= 1
            start = self._free.pop(index)[0]
        self._free.insert(index, (start, end - start))
