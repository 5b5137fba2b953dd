"""Array work, off the event loop: one compute thread per process, or inline on a virtual clock.

The event loop stays free while kernels run (numpy and BLAS release the GIL), and a process never runs two
kernels at once: actors that share a process share its device. The exception is work that is to race (`race`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")
RACERS = 16  # threads for pieces of array work that race
REMEMBERED = 64  # durations kept per process to know what a usual item costs


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of array work in progress: whose, what, and since when (loop time, seconds)."""

    actor: str
    label: str
    since: float


class Compute(ABC):
    """Runs array work for the actors of one process and remembers what it runs."""

    def __init__(self) -> None:
        self._items: list[Item] = []  # in progress, in the order of their beginning
        self.done = 0
        self.busy = 0.0  # seconds of all items so far
        self.on_done: Callable[[Item, float], None] = lambda item, seconds: None
        self._durations: deque[float] = deque(maxlen=REMEMBERED)

    @abstractmethod
    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run `work(*args)` and return its result; an exception comes through."""

    @abstractmethod
    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """As `run`, but at once, beside whatever else runs, other races too: nothing keeps two off one array."""

    @property
    def current(self) -> Item | None:
        """The piece in progress, the oldest of several."""
        return self._items[0] if self._items else None

    def usual_seconds(self) -> float:
        """Median duration of the last items, 0 before the first."""
        return median(self._durations) if self._durations else 0.0

    def close(self) -> None:  # noqa: B027  # most kinds hold nothing to release
        """Take no more work."""

    def _start(self, actor: str, label: str) -> Item:
        item = Item(actor, label, asyncio.get_running_loop().time())
        self._items.append(item)
        return item

    def _end(self, item: Item) -> None:
        taken = asyncio.get_running_loop().time() - item.since
        self._durations.append(taken)
        self.busy += taken
        self._items.remove(item)
        self.on_done(item, taken)
        self.done += 1


class ThreadCompute(Compute):
    """A compute thread beside the event loop, and as many more as there are races (at most RACERS)."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
        self._racers = ThreadPoolExecutor(max_workers=RACERS, thread_name_prefix="race")  # starts none before its first
        self._turn = asyncio.Lock()

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.run. Waits its turn in the order of arrival."""
        async with self._turn:
            return await self._on(self._thread, actor, label, work, *args)

    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.race."""
        return await self._on(self._racers, actor, label, work, *args)

    async def _on(self, pool: ThreadPoolExecutor, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        item = self._start(actor, label)
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, *args)
        finally:
            self._end(item)

    def close(self) -> None:
        """Take no more work; an item under way is not waited for."""
        for pool in (self._thread, self._racers):
            pool.shutdown(wait=False, cancel_futures=True)


class InlineCompute(Compute):
    """For the virtual clock: the work is done at once, its duration passes on the clock.

    `service_time(actor, label)` gives the seconds an item takes; None for no time at all.
    """

    def __init__(self, service_time: Callable[[str, str], float] | None = None) -> None:
        super().__init__()
        self._service_time = service_time
        self._turn = asyncio.Lock()

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.run."""
        async with self._turn:
            return await self.race(actor, label, work, *args)

    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.race: the durations pass beside one another, the work itself is done one after the other."""
        item = self._start(actor, label)
        try:
            result = work(*args)
            if self._service_time is not None:
                await self._pass(self._service_time(actor, label))
            return result
        finally:
            self._end(item)

    async def _pass(self, seconds: float) -> None:
        """Let so much time go by."""
        await asyncio.sleep(seconds)
