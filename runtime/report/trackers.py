"""Trackers of experiments of other projects, which get the numbers of a run (`run.trackers`).

A tracker works in a thread of its own, which also imports its package: nothing that it does blocks
the event loop. A tracker that fails, or whose package is missing, is reported in one line, and the
run goes on without it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from runtime.errors import ConvoyError

TRACKERS = {"wandb": "runtime.report.wandb_tracker:WandbTracker"}
EVENTS = ("progress", "test")
NO_CURVES = ("iteration", "max_iter", "elapsed_seconds")
WAITING = 10_000  # reports that wait for a slow tracker
CLOSE_SECONDS = 30.0  # for the end of a tracker, which may upload then

Act = Callable[["Tracker"], None]


class Tracker(Protocol):
    """A tracker. All methods are called in its thread. Any exception ends the tracking."""

    def log(self, numbers: Mapping[str, float], iteration: int) -> None:
        """Take the numbers of a progress report or a test, by name."""

    def close(self, *, failed: bool) -> None:
        """Complete the files. `failed`: the run ended with an error."""


class Tracked:
    """A watcher that passes the numbers of a run on to the tracker `name`. `tell` is called on the
    event loop with a text for people if numbers are lost."""

    def __init__(self, name: str, directory: Path, tell: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = tell
        self._name = name
        self._directory = directory
        self._steps: dict[str, int] = {}
        self._failed = self._is_full = False
        self._acts: queue.Queue[Act | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, daemon=True, name=f"tracker {name}")
        self._thread.start()

    def __repr__(self) -> str:
        return f"<{self._name} of {self._directory}, {self._acts.qsize()} reports wait>"

    def event(self, actor: str, event: str, fields: Mapping[str, Any]) -> None:
        """Pass on the numbers of a progress report or test. Other events are ignored."""
        if event in EVENTS and self._thread.is_alive():
            numbers, iteration = numbers_of(event, fields, self._steps)
            self._put(lambda tracker: tracker.log(numbers, iteration))

    def beat(self, process: str, heartbeat: object) -> None:
        """Ignore it: a heartbeat is not an event."""

    def failed(self, error: ConvoyError) -> None:
        """Note that the run ended with an error."""
        self._failed = True

    async def close(self) -> None:
        """Wait until the tracker has completed its files, at most CLOSE_SECONDS."""
        self._put(lambda tracker: tracker.close(failed=self._failed))
        self._put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)
        if self._thread.is_alive():
            self._tell(f"has not ended after {CLOSE_SECONDS:g} s: its last numbers may be missing")

    def _put(self, act: Act | None) -> None:
        try:
            self._acts.put_nowait(act)
        except queue.Full:
            if not self._is_full:
                self._is_full = True
                self._tell(f"{WAITING} reports wait for it: further numbers are lost")

    def _tell(self, text: str) -> None:
        with suppress(RuntimeError):  # the run and its loop have not waited for the tracker
            self._loop.call_soon_threadsafe(self._heard, f"run.trackers: {self._name}: {text}")

    # -- in the thread

    def _work(self) -> None:
        try:
            module, _, kind = TRACKERS[self._name].partition(":")
            tracker: Tracker = getattr(import_module(module), kind)(self._directory)
            while (act := self._acts.get()) is not None:
                act(tracker)
        except ImportError as error:
            advice = f"pip install 'convoy-runtime[{self._name}]'"
            self._tell(f"{error}: the run goes on without it; {advice}")
        except Exception as error:  # noqa: BLE001  # another project's: the run needs no tracker
            text = " ".join(str(error).split()) or type(error).__name__
            self._tell(f"{text}: the run goes on without it")


def numbers_of(
    event: str, fields: Mapping[str, Any], steps: dict[str, int]
) -> tuple[dict[str, float], int]:
    """Return the numbers of a progress report or test, by names such as "progress/loss", and the
    iteration. `steps` counts the events of each name, for programs whose events have none."""
    counted = steps[event] = steps.get(event, 0) + 1
    iteration = fields.get("iteration")
    net = f"{fields['net']}/" if "net" in fields else ""
    numbers = {
        f"{event}/{net}{name}": float(value)
        for name, value in fields.items()
        if isinstance(value, (int, float)) and name not in NO_CURVES
    }
    return numbers, iteration if isinstance(iteration, int) else counted
