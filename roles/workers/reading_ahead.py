"""The rows of the coming passes, which are read in the order in which the passes need them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from nets.data import Prefetcher
from ops import Array

# (phase, first sample, sample after the last one)
Share = tuple[str, int, int]
AHEAD = 2  # shares that are read ahead of the one that is fetched


class ReadingAhead:
    """Reads the next AHEAD shares that are `expected`. `readers` has a reader for each phase; this
    object closes them. Any thread may call the methods."""

    def __init__(self, readers: Mapping[str, Prefetcher]) -> None:
        self._readers = readers
        self._coming: deque[Share] = deque()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<reading ahead, {len(self._coming)} shares are expected>"

    def expect(self, shares: Iterable[Share]) -> None:
        """Note that these shares are fetched after those that are expected already."""
        with self._lock:
            self._coming.extend(shares)
            self._request()

    def fetch(self, share: Share) -> Sequence[Array]:
        """Return the rows of a share once they are read. Raises the errors of reading."""
        phase, low, high = share
        with self._lock:  # now, since `expect` must not request a share again that is being fetched
            passed_over = self._until(share)
        rows = self._readers[phase].get(low, high)
        with self._lock:
            for other, *_ in passed_over:
                self._readers[other].forget()
            self._request()
        return rows

    def _until(self, share: Share) -> list[Share]:
        """Take a share, if it is expected, from the coming ones. Returns those before it: the
        worker's part of a pass has changed since."""
        before: list[Share] = []
        if share in self._coming:
            while (first := self._coming.popleft()) != share:
                before.append(first)
        return before

    def close(self) -> None:
        """Stop reading."""
        for reader in self._readers.values():
            reader.close()

    def _request(self) -> None:
        for phase, low, high in islice(self._coming, AHEAD):
            self._readers[phase].request(low, high)
