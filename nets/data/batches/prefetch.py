"""Threads that read and transform the next samples, so that the compute thread does not wait for
them.

There is one thread that reads ahead, which may cut a share into pieces for further threads, and a
bounded number of shares that were requested and not yet fetched. The caller knows which share comes
next. A sample does not depend on the thread that reads it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from itertools import pairwise
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from nets.data.batches.batches import Batches
from nets.data.batches.device_batches import DeviceBatches
from nets.data.batches.reused_memory import ReusedMemory
from nets.data.batches.stream_batches import StreamBatches
from nets.errors import DataError

Share = tuple[int, int]  # samples [low, high), see Batches.samples
Arrays = tuple[NDArray[Any], ...]
# brings an array to the memory where its reader needs it; also called in the thread
Place = Callable[[NDArray[Any]], NDArray[Any]]

STARVED = 4  # shares in a row that were not ready when they were fetched
LEAST_NUMBERS = 1 << 15  # of images for each thread: 11 of CIFAR-10, or a part of a photograph


class Prefetcher:
    """Reads shares of data early: `request` a share, and `get` it later.

    At most `depth` shares are held. A share that was not requested is read when it is fetched.
    `place` moves the arrays to where they are needed. A share of images is read by up to `threads`
    threads. `finish` makes the arrays of a share that is fetched into those that `get` returns, in
    the thread that calls it. `starved` is called when STARVED shares in a row were not ready. All
    methods may be called from any thread. A `with` block closes the prefetcher.
    """

    def __init__(
        self,
        batches: Batches | StreamBatches | DeviceBatches,
        depth: int = 2,
        place: Place | None = None,
        threads: int = 1,
        starved: Callable[[], None] | None = None,
        finish: Callable[[Arrays], Arrays] = lambda arrays: arrays,
    ) -> None:
        for name, number in (("depth", depth), ("threads", threads)):
            if number < 1:
                raise DataError(f"prefetch: {name}: found {number}, expected an integer >= 1")
        self.batches = batches
        self.depth = depth
        self._place = place
        self._memory = ReusedMemory()
        self._lock = threading.Lock()
        self._held: dict[Share, Future[Arrays]] = {}
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._threads = threads
        self._helpers = ThreadPoolExecutor(threads, thread_name_prefix="prefetch-helper")
        self._starved = starved
        self._finish = finish
        self._late = 0  # shares in a row
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
        """Return the share as `batches.samples` returns it, finished. Wait if it is not yet read.

        Raises the errors of reading, and DataError if the prefetcher is closed meanwhile.
        """
        share = (low, high)
        with self._lock:
            self._check_open()
            future = self._held.pop(share, None)
            if future is not None:
                self._late = 0 if future.done() else self._late + 1
            starved = self._starved if self._late == STARVED else None
        if starved is not None:
            starved()
        if future is None:
            return self._finish(self._read(*share))
        try:
            return self._finish(future.result())
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
        """Drop all shares and wait until the threads end. May be called twice."""
        with self._lock:
            self._closed = True
        self.forget()
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._helpers.shutdown(wait=True)

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
        numbers = (high - low) * math.prod(self.batches.shapes[0])
        pieces = max(1, min(self._threads, high - low, numbers // LEAST_NUMBERS))
        cuts = [low + (high - low) * at // pieces for at in range(pieces + 1)]
        batches = self.batches
        if isinstance(batches, StreamBatches) or not batches.divisible:
            arrays = batches.samples(low, high)
        else:
            arrays = self._together(batches, list(pairwise(cuts)))
        return arrays if self._place is None else tuple(map(self._place, arrays))

    def _together(self, batches: Batches | DeviceBatches, spans: list[Share]) -> Arrays:
        """Read these samples at the same time, one span in this thread. Raises the error of the
        first span that has one."""
        first, *others = spans
        start = first[0]
        count = spans[-1][1] - start
        empty = self._memory.empty
        whole = tuple(empty((count, *shape), kind) for shape, kind in batches.forms)

        def read(low: int, high: int) -> None:
            into = [rows[low - start : high - start] for rows in whole]
            for rows, found in zip(into, batches.samples(low, high, into), strict=True):
                if found is not rows:
                    rows[...] = found

        futures: list[Future[None]] = []
        here = [first]
        for span in others:
            try:
                futures.append(self._helpers.submit(read, *span))
            except RuntimeError:
                if self._closed:  # meanwhile
                    raise DataError("prefetch: closed while reading a share") from None
                here.append(span)  # the system allows no more threads
        try:
            for span in here:
                read(*span)
        finally:
            wait(futures)
        for future in futures:
            future.result()
        return whole

    def _check_open(self) -> None:
        if self._closed:
            raise DataError("prefetch: it is closed")
