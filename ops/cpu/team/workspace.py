"""Scratch memory of one backend: one block, lent to one operation at a time and kept between them.

It grows to the largest request and stays.
"""

from __future__ import annotations

import numpy as np

LINE = 64  # bytes of a cache line and of the widest vector
# Bytes of a large page of x86 and ARM. NumPy asks the system for large pages from twice that size
# on, which makes the kernels' copies 1 to 3 % faster.
PAGE = 2 << 20


class Workspace:
    """`size` bytes that the operation under way may use."""

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._address = 0
        self.size = 0
        self.age = 0  # how often the block has moved

    def __repr__(self) -> str:
        return f"<Workspace of {self.size} bytes>"

    def take(self, size: int) -> int:
        """The address of at least `size` bytes, aligned to PAGE, contents undefined, until the next
        `take`."""
        if size > self.size:
            self._block = np.empty(max(2 * PAGE, aligned(size, PAGE) + PAGE), np.uint8)
            self.size = size
            self.age += 1
            self._address = aligned(self._block.ctypes.data, PAGE)
        return self._address


def aligned(size: int, unit: int = LINE) -> int:
    """`size` bytes rounded up to whole lines, or other units."""
    return size + -size % unit
