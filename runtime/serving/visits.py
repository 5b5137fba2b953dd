"""Who comes to a page again and again, so that the page can stay until they have seen the end.

A reader is a connection that is kept, as Prometheus keeps its own. After two visits it is expected
again: within one and a half times the longest of its last pauses.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import pairwise

METRICS = "metrics"  # the pages that are read regularly
LIST = "sd"
READERS = 64  # remembered; whoever came longest ago is forgotten
PAUSES = 4  # the longest of so many counts
SLACK = 1.5  # of a pause: a scrape may be late

Reader = tuple[str, str]  # page, connection


class Visits:
    """To the pages of one process. `note` is called in the thread that serves them, everything else
    on a loop whose clock is the same."""

    def __init__(self) -> None:
        self._times: OrderedDict[Reader, deque[float]] = OrderedDict()
        self._awaited: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def __repr__(self) -> str:
        return f"<visits of {len(self._times)} readers>"

    def note(self, page: str, connection: str, now: float) -> None:
        """Somebody was answered; `now` in seconds."""
        times = self._times.setdefault((page, connection), deque(maxlen=PAUSES + 1))
        times.append(now)
        self._times.move_to_end((page, connection))
        if len(self._times) > READERS:
            self._times.popitem(last=False)
        if self._awaited is not None:
            loop, event = self._awaited
            loop.call_soon_threadsafe(event.set)

    def expected(self, page: str, now: float) -> dict[Reader, float]:
        """Whoever will come again to a page -> until when."""
        found = {}
        for reader, seen in list(self._times.items()):
            times = list(seen)
            if reader[0] == page and len(times) > 1:
                longest = max(after - before for before, after in pairwise(times))
                if (until := times[-1] + SLACK * longest) > now:
                    found[reader] = until
        return found

    async def once_more(self, page: str) -> None:
        """Wait until all that are expected have come, or are too late."""
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
    """The pages' stay after the end: until everybody who comes regularly has seen it, and then that
    the list is empty. `tell` hears that it has begun."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.seconds = 0.0  # at most
        self.was_seen = False  # the end, by all that were expected
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def __repr__(self) -> str:
        return (
            f"<last look of at most {self.seconds:g} s, {'over' if self.was_seen else 'not over'}>"
        )

    async def at(self, visits: Visits) -> None:
        """Wait for it."""
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
        """End it if it has begun; or also keep it from beginning."""
        self._is_over = self._is_over or for_good
        if self._task is not None:
            self._task.cancel()

    async def _look(self, visits: Visits) -> None:
        await visits.once_more(METRICS)
        self.was_seen = True
        await visits.once_more(LIST)
