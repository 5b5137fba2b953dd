"""Signals of a run: the first SIGINT or SIGTERM winds it down, the second ends it at once. SIGHUP
asks for a checkpoint."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from runtime.errors import ConvoyError
from runtime.heard_signals import heard

ENDING = (signal.SIGINT, signal.SIGTERM)


class Ends(Protocol):
    """The object that signals act on: a run, or the trials before it. See Run."""

    @property
    def has_begun(self) -> bool: ...
    async def wind_down(self, reason: str = ...) -> None: ...
    async def end_now(self) -> None: ...
    async def save(self) -> None: ...


class Signals:
    """Handles signals for a run while this context lasts. A signal that was ignored before stays
    ignored. `number`: the first signal that came, 0 if none came.

    In a thread other than the main one, where Python receives no signals, it does nothing.
    """

    def __init__(self, run: Ends, say: Callable[[str], None] = lambda line: None) -> None:
        self._run = run
        self._say = say
        self._tasks: set[asyncio.Task[Any]] = set()
        self._before: dict[signal.Signals, Any] = {}
        self.number = 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            mine = heard(*ENDING, signal.SIGHUP)
            self._before = {number: signal.getsignal(number) for number in mine}
            loop = asyncio.get_running_loop()
            for number in mine:
                act = self._save if number == signal.SIGHUP else self._interrupted
                loop.add_signal_handler(number, act, number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for number, handler in self._before.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, handler)

    def _interrupted(self, number: signal.Signals) -> None:
        if self.number:
            self._spawn(self._run.end_now())
            return
        self.number = int(number)
        saving = "finishing the work under way and saving; repeat the signal to end at once"
        self._say(
            f"{number.name}: "
            f"{saving if self._run.has_begun else 'ending the run, which has not begun yet'}"
        )
        self._spawn(self._run.wind_down(number.name))

    def _save(self, number: signal.Signals) -> None:
        self._spawn(self._run.save())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        async def done() -> None:
            with suppress(ConvoyError):  # the run is over, and reports itself how it ended
                await work

        task = asyncio.get_running_loop().create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
