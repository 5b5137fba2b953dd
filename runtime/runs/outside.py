"""The lock of `up`, and the requests that other processes make through it. By the lock a run can be
ended even if its sockets cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runtime.config.sections import ClusterConfig
from runtime.errors import ConvoyError
from runtime.reasons import no_run_directory
from runtime.records.up_lock import UpLock
from runtime.runs.signals import Ends

REASON = "asked to from outside"


@contextmanager
def locked(config: ClusterConfig, tell: Callable[[str], None]) -> Iterator[UpLock | None]:
    """Hold the lock of an `up` in the folder of its runs.

    Yields None on virtual time, where no command looks for the run. Raises LaunchError if no file
    can be made in the folder.
    """
    if config.simulation.clock == "virtual":
        yield None
        return
    folder = Path(config.run.directory)
    lock = UpLock(folder, tell)
    try:
        lock.__enter__()
    except OSError as error:
        raise no_run_directory(folder, error) from None
    try:
        yield lock
    finally:
        lock.__exit__(None, None, None)


class Wishes:
    """Ends the run, well or at once, when a process asks for it through the lock. Works while this
    context lasts."""

    def __init__(self, lock: UpLock | None, run: Ends) -> None:
        self._lock = lock
        self._run = run
        self._tasks: list[asyncio.Task[Any]] = []
        self._asked: set[bool] = set()

    def __repr__(self) -> str:
        return f"<wishes for the end of {self._run!r}: {len(self._asked)} heard>"

    @property
    def heard(self) -> bool:
        """Whether a process has asked for the end."""
        return bool(self._asked)

    def __enter__(self) -> Self:
        if self._lock is not None:
            loop = asyncio.get_running_loop()
            self._lock.on_wish = lambda now: _later(loop, self._wished, now)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            self._lock.on_wish = lambda now: None
        for task in self._tasks:
            task.cancel()

    def _wished(self, now: bool) -> None:
        if now not in self._asked:
            self._asked.add(now)
            self._tasks.append(asyncio.create_task(self._end(now), name="end that was asked for"))

    async def _end(self, now: bool) -> None:
        with suppress(ConvoyError):  # the run is over, and reports itself how it ended
            await (self._run.end_now() if now else self._run.wind_down(REASON))


def _later(loop: asyncio.AbstractEventLoop, call: Callable[[bool], None], now: bool) -> None:
    try:
        loop.call_soon_threadsafe(call, now)
    except RuntimeError:  # the loop has ended meanwhile, and the run with it
        return
