"""A thread that reads and transforms the next samples, so that the compute thread does not wait for
them.

There is one thread, and a bounded number of shares that were requested and not yet fetched. The
caller knows which share comes next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from nets.data.batches import Batches
from nets.data.stream_batches import StreamBatches
from nets.errors import DataError

Share = tuple[int, int]  # samples [low, high), see Batches.samples
Arrays = tuple[NDArray[Any], ...]
# brings an array to the memory where its reader needs it; also called in the thread
Place = Callable[[NDArray[Any]], NDArray[Any]]


class Prefetcher:
    """Reads shares of data early: `request` a share, and `get` it later.

    At most `depth` shares are held. A share that was not requested is read when it is fetched.
    `place` moves the arrays to where they are needed. All methods may be called from any thread. A
    `with` block closes the prefetcher.
    """

    def __init__(
        self, batches: Batches | StreamBatches, depth: int = 2, place: Place | None = None
    ) -> None:
        if depth < 1:
            raise DataError(f"prefetch: depth: found {depth}, expected an integer >= 1")
        self.batches = batches
        self.depth = depth
        self._place = place
        self._lock = threading.Lock()
        self._held: dict[Share, Future[Arrays]] = {}
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._closed = False

    def __repr__(self) -> str:
        ready = sum(future.done() for future in list(self._held.values()))
        return (
            f"<Prefetcher held={len(self._held)}/{self.depth} ready={ready} closed={self._closed}>"
        )

    def request(self, low: int, high: int) -> bool:
        """Begin to read samples [low, high) and return True. If `depth` shares are already held, do
        nothing and return False."""
        share = (low, high)
        with self._lock:
            self._check_open()
            if share in self._held:
                return True
            if len(self._held) >= self.depth:
                return False
            self._held[share] = self._reader.submit(self._read, *share)
            return True

    def get(self, low: int, high: int) -> Arrays:
        """Return the share as `Batches.samples` returns it. Wait if it is not yet read.

        Raises the errors of reading, and DataError if the prefetcher is closed meanwhile.
        """
        share = (low, high)
        with self._lock:
            self._check_open()
            future = self._held.pop(share, None)
        if future is None:
            return self._read(*share)
        try:
            return future.result()
        except CancelledError:
            raise DataError("prefetch: closed while waiting for a share") from None

    def forget(self) -> None:
        """Drop every share that was requested and not fetched, after a change of plan. A share that
        is being read is dropped when it is complete."""
        with self._lock:
            for future in self._held.values():
                future.cancel()
            self._held.clear()

    def close(self) -> None:
        """Drop all shares and wait until the thread ends. May be called twice."""
        with self._lock:
            self._closed = True
        self.forget()
        self._reader.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, low: int, high: int) -> Arrays:
        arrays = self.batches.samples(low, high)
        return arrays if self._place is None else tuple(map(self._place, arrays))

    def _check_open(self) -> None:
        if self._closed:
            raise DataError("prefetch: it is closed")
