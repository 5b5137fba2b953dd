"""The items of a pool as jobs: each goes to one worker at a time, and comes back if that worker
dies. This is plain bookkeeping; `mapping` acts on it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass
class Job:
    """An item with its number in the order of the items, and the deaths of workers that had it."""

    number: int
    item: Any
    deaths: int = 0


class Jobs:
    """The jobs of an iterable, whose next item is taken when a worker is free. `results` has the
    result of each job that is done, by its number."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = enumerate(items)
        self._again: deque[Job] = deque()
        self._out = 0  # jobs that workers have now
        self._changed = asyncio.Event()
        self.results: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"<jobs: {len(self.results)} done, {self._out} under way>"

    async def next(self) -> Job | None:
        """Return a job, as soon as one is there. None: all jobs are done."""
        while True:
            job = self._taken()
            if job is not None or not self._out:
                return job
            self._changed.clear()
            await self._changed.wait()

    def _taken(self) -> Job | None:
        job = self._again.popleft() if self._again else None
        if job is None and (found := next(self._items, None)) is not None:
            job = Job(*found)
        if job is not None:
            self._out += 1
        return job

    def done(self, job: Job, result: Any) -> None:
        """Note the result of a job."""
        self.results[job.number] = result
        self._out -= 1
        self._changed.set()

    def died(self, job: Job) -> None:
        """Take a job back from a worker that has died."""
        job.deaths += 1
        self._again.append(job)
        self._out -= 1
        self._changed.set()
