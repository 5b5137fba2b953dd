"""The page locks of memory that this process shares with others: a device copies to locked pages by
itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import pairwise

# bytes; the least that is locked at once: few arrays lie across a border between two regions
REGION = 64 << 20
_log = logging.getLogger("ops.cupy")


class PageLocks:
    """One range of addresses, which is used from its beginning on. It is locked region by region as
    arrays reach further, each region as large as all before it. `lock(address, size)` locks pages;
    it returns the reason in words if the driver refuses, else "". Bytes outside the range are never
    locked. Any thread may use this."""

    def __init__(self, address: int, size: int, lock: Callable[[int, int], str]) -> None:
        self._borders = [address]  # between the locked regions
        self._end = self._limit = address + size
        self._lock_pages = lock
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return (
            f"<{len(self._borders) - 1} locked regions, "
            f"{self._borders[-1] - self._borders[0]} bytes>"
        )

    def pieces(self, address: int, size: int) -> list[tuple[int, int]]:
        """Lock the pages up to the end of these bytes. Return the bytes as (address, size), one for
        each region that they lie in: CUDA refuses a copy across two regions."""
        end = address + size
        if not self._borders[0] <= address < self._end:
            return [(address, size)]
        with self._lock:
            self._reach(end)
            inside = [border for border in self._borders if address < border < end]
        return [(low, high - low) for low, high in pairwise([address, *inside, end])]

    def _reach(self, end: int) -> None:
        """Lock the next region if `end` lies behind the last. After a refusal nothing more is
        locked, and copies wait for the driver's own block of memory."""
        first = self._borders[0]
        last = self._borders[-1]
        if end <= last or last >= self._limit:
            return
        size = min(max(end - last, last - first, REGION), self._limit - last)
        if why := self._lock_pages(last, size):
            self._limit = last
            _log.warning("%d bytes of shared memory are not page-locked: %s", size, why)
        else:
            self._borders.append(last + size)
