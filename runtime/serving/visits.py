"""Readers that visit a page regularly, so that the page can stay until they have seen the end.

A reader is one connection that stays open, as Prometheus keeps its own. After two visits the reader
is expected again: within one and a half times the longest of its last pauses.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import pairwise

METRICS = "metrics"  # the pages that are read at regular times
LIST = "sd"
READERS = 64  # remembered; the reader with the oldest last visit is forgotten first
PAUSES = 4  # the longest of the last so many pauses counts
SLACK = 1.5  # times the pause: a scrape may be late

Reader = tuple[str, str]  # page, connection


class Visits:
    """Visits to the pages of one process. `note` is called in the thread that serves the pages, all
    other methods on an event loop with the same clock."""

    def __init__(self) -> None:
        self._times: OrderedDict[Reader, deque[float]] = OrderedDict()
        self._awaited: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def __repr__(self) -> str:
        return f"<visits of {len(self._times)} readers>"

    def note(self, page: str, connection: str, now: float) -> None:
        """Note that a reader was answered at `now`, in seconds."""
        times = self._times.setdefault((page, connection), deque(maxlen=PAUSES + 1))
        times.append(now)
        self._times.move_to_end((page, connection))
        if len(self._times) > READERS:
            self._times.popitem(last=False)
        if self._awaited is not None:
            loop, event = self._awaited
            loop.call_soon_threadsafe(event.set)

    def expected(self, page: str, now: float) -> dict[Reader, float]:
        """The readers that are expected to visit `page` again -> the time until when."""
        found = {}
        for reader, seen in list(self._times.items()):
            times = list(seen)
            if reader[0] == page and len(times) > 1:
                longest = max(after - before for before, after in pairwise(times))
                if (until := times[-1] + SLACK * longest) > now:
                    found[reader] = until
        return found

    async def once_more(self, page: str) -> None:
        """Wait until every expected reader has visited `page` or is overdue."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        began = loop.time()
        waited_for = self.expected(page, began)
        self._awaited = loop, event
        try:
            while waited_for := {
                reader: until
                for reader, until in waited_for.items()
                if self._times.get(reader, [began])[-1] <= began and until > loop.time()
            }:
                event.clear()
                try:
                    async with asyncio.timeout_at(max(waited_for.values())):
                        await event.wait()
                except TimeoutError:
                    return
        finally:
            self._awaited = None


class LastLook:
    """Keeps the pages up after the end of the run. It waits until every regular reader of the
    metrics has seen the end, and then until every regular reader of the list has seen that it is
    empty. Calls `tell` when the wait begins."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.seconds = 0.0  # at most
        self.was_seen = False  # every expected reader has seen the end
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def __repr__(self) -> str:
        return (
            f"<last look of at most {self.seconds:g} s, {'over' if self.was_seen else 'not over'}>"
        )

    async def at(self, visits: Visits) -> None:
        """Wait until the regular readers have seen the end, at most `seconds`."""
        now = asyncio.get_running_loop().time()
        if (
            not self.seconds
            or self._is_over
            or not any(visits.expected(page, now) for page in (METRICS, LIST))
        ):
            return
        self._tell()
        self._task = asyncio.create_task(self._look(visits), name="last look at the metrics")
        await asyncio.wait([self._task], timeout=self.seconds)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def stop(self, *, for_good: bool = False) -> None:
        """End the wait if it has begun. `for_good` also prevents a later one."""
        self._is_over = self._is_over or for_good
        if self._task is not None:
            self._task.cancel()

    async def _look(self, visits: Visits) -> None:
        await visits.once_more(METRICS)
        self.was_seen = True
        await visits.once_more(LIST)
