"""The events of a run as a stream: any number of readers, each from the first event on, at its own
pace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from runtime.cluster.lifecycle import Heartbeat
from runtime.errors import ConvoyError
from runtime.report.console import describe

KEPT = 100_000  # events for readers that come late or are slow
MISSED = "missed"  # what a reader gets in place of those that are not kept any more


@dataclass(frozen=True)
class Event:
    """Something that an actor (or the supervisor) reported, `time` seconds after the start of the
    run."""

    time: float
    actor: str
    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, field_name: str) -> Any:
        """A field's value."""
        return self.fields[field_name]

    def __str__(self) -> str:
        return (
            f"{self.time:8.2f}  {self.actor:<14} {self.name:<10} {describe(self.fields)}"
        ).rstrip()


class Events:
    """A watcher of a run that keeps its events. `now()` is the time of an event."""

    def __init__(self, now: Callable[[], float], keep: int = KEPT) -> None:
        self._now = now
        self._kept: deque[Event] = deque(maxlen=keep)
        self._count = 0
        self.over = False
        self._changed = asyncio.Event()
        self.last: dict[tuple[str, str], Event] = {}  # (actor, name) -> the latest

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """See Watcher."""
        made = Event(self._now(), actor, event, dict(fields))
        self._kept.append(made)
        self._count += 1
        self.last.pop((actor, event), None)  # so that the order is that of the latest
        self.last[actor, event] = made
        self._wake()

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """A heartbeat is no event."""

    def failed(self, error: ConvoyError) -> None:
        """See Watcher."""
        self.event("supervisor", "failed", {"error": str(error), "exit_code": error.exit_code})

    def end(self) -> None:
        """Nothing more will come."""
        self.over = True
        self._wake()

    async def stream(self) -> AsyncIterator[Event]:
        """Every event from the first on, until the run is over. A reader too slow for that learns
        what it missed."""
        at = 0
        while True:
            changed = self._changed
            first = self._count - len(self._kept)
            if at < first:
                yield Event(self._now(), "supervisor", MISSED, {"events": first - at})
                at = first
            elif at < self._count:
                yield self._kept[at - first]
                at += 1
            elif self.over:
                return
            else:
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
