"""The totals of every process so far, usage.jsonl next to the journal: work, waiting and bytes of
each actor.

A line holds the totals of one process: {"t", "process", "actors": {actor: {"role", "handled",
"steps", "waited_seconds": {peer: seconds}, "received_bytes": {peer: bytes of arrays}, "work":
{label: [pieces, seconds, sum of squares]}}}}. They come from heartbeats. The interval between lines
grows with the age of the run, so that a run of days writes some hundred lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runtime.cluster.lifecycle import Heartbeat

FILE = "usage.jsonl"
LEAST_SECONDS = 2.0  # between two lines of a process
SHARE = 0.05  # of the time since the run began


class Usage:
    """Collects the totals from heartbeats, and calls `tell` with a line when one is due. Times are
    seconds since the run began."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        # process -> actor -> what it has done
        self._totals: dict[str, dict[str, dict[str, Any]]] = {}
        self._told: dict[str, float] = {}
        self._at: dict[str, float] = {}  # process -> the time of its totals

    def beat(self, process: str, heartbeat: Heartbeat, now: float) -> None:
        """Take the totals from a heartbeat. Only one heartbeat a second carries work; its totals
        all belong to one moment, so others are skipped."""
        if not heartbeat.work:
            return
        self.add(process, heartbeat.actors, heartbeat.work, heartbeat.received, now)
        if now - self._told.setdefault(process, 0.0) >= max(LEAST_SECONDS, SHARE * now):
            self._write(process, now)

    def add(
        self,
        process: str,
        actors: Mapping[str, Any],
        work: Mapping[str, Any],
        received: Mapping[str, Any],
        now: float,
    ) -> None:
        """Update the totals of a process: of some of its actors, of some of their work, and of the
        bytes they received."""
        self._at[process] = now
        mine = self._totals.setdefault(process, {})
        for name, status in actors.items():
            told = {"role": status["role"], "handled": status["handled"], "steps": status["steps"]}
            mine.setdefault(name, _nothing()).update(told, waited_seconds=status["waited"])
        for name, sums in work.items():
            mine.setdefault(name, _nothing())["work"].update(sums)
        for name, sizes in received.items():
            mine.setdefault(name, _nothing())["received_bytes"] = sizes

    def end(self) -> None:
        """Write a last line for each process."""
        for process in self._totals:
            if self._told.get(process) != self._at[process]:
                self._write(process, self._at[process])

    def _write(self, process: str, now: float) -> None:
        self._told[process] = now
        self._tell({"t": round(now, 6), "process": process, "actors": self._totals[process]})


def _nothing() -> dict[str, Any]:
    return {
        "role": "",
        "handled": 0,
        "steps": 0,
        "waited_seconds": {},
        "received_bytes": {},
        "work": {},
    }
