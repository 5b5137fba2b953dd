"""The events of a run as a stream for any number of readers. Each reader gets all events from the
first on, at its own pace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from runtime.cluster.lifecycle import Heartbeat
from runtime.errors import ConvoyError
from runtime.report.console import describe

KEPT = 100_000  # events kept for readers that start late or are slow
MISSED = "missed"  # the event that stands for events no longer kept


@dataclass(frozen=True)
class Event:
    """An event reported by an actor or the supervisor, `time` seconds after the start of the
    run."""

    time: float
    actor: str
    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, field_name: str) -> Any:
        """The value of a field."""
        return self.fields[field_name]

    def __str__(self) -> str:
        return (
            f"{self.time:8.2f}  {self.actor:<14} {self.name:<10} {describe(self.fields)}"
        ).rstrip()


class Events:
    """A watcher that keeps the events of a run. `now()` returns the time of an event."""

    def __init__(self, now: Callable[[], float], keep: int = KEPT) -> None:
        self._now = now
        self._kept: deque[Event] = deque(maxlen=keep)
        self._count = 0
        self.over = False
        self._changed = asyncio.Event()
        self.last: dict[tuple[str, str], Event] = {}  # (actor, name) -> the latest

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Keep an event and wake the readers."""
        made = Event(self._now(), actor, event, dict(fields))
        self._kept.append(made)
        self._count += 1
        self.last.pop((actor, event), None)  # keeps the order by latest event
        self.last[actor, event] = made
        self._wake()

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Ignore it: a heartbeat is not an event."""

    def failed(self, error: ConvoyError) -> None:
        """Keep the error as the event "failed"."""
        self.event("supervisor", "failed", {"error": str(error), "exit_code": error.exit_code})

    def end(self) -> None:
        """End the streams: no more events will come."""
        self.over = True
        self._wake()

    def last_fields(self, actor: str) -> dict[str, Any]:
        """Return the fields of an actor's latest event. Empty if it has reported none."""
        for (by, _), event in reversed(self.last.items()):
            if by == actor:
                return dict(event.fields)
        return {}

    async def stream(self) -> AsyncIterator[Event]:
        """Yield every event from the first on, until the run is over. A reader that is too slow
        gets the number of events it missed."""
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
