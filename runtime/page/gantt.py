"""Ten iterations of a trace, with the times at which each actor computed and waited. Reads
`trace.json` of a run directory.

The file has Chrome's Trace Event Format: a JSON array of objects, one on each line. The bracket at
its end may be missing. The file may be larger than memory, so it is read line by line, twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.page.time_shares import BESIDE
from runtime.records.journal_reading import is_number
from runtime.records.run_files import Lines

FILE = "trace.json"
ITERATIONS = 10
MOST_SPANS = 4000  # drawn at most: the longest ones
COMPUTES = "compute"  # values of `cat` whose events may be drawn
HANDLES = "handle"
WAITS = "wait"

Event = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A piece of an actor's time, in milliseconds since the start of the shown part. `kind` is the
    first word of the work's label, or "" while the actor waits."""

    actor: str
    kind: str
    begin: float
    length: float


@dataclass(frozen=True)
class Gantt:
    """The spans to draw. `left_out` counts the spans that are too short to be among them."""

    actors: list[str]
    spans: list[Span]
    first: int
    last: int
    left_out: int = 0

    @property
    def kinds(self) -> list[str]:
        """The kinds of work by name. Kinds that are not training work come last."""
        return sorted(
            {span.kind for span in self.spans} - {""},
            key=lambda kind: (bool(BESIDE.search(kind)), kind),
        )


def gantt(directory: Path, damaged: Callable[[str], None] = lambda line: None) -> Gantt | None:
    """The spans of ten iterations. None if the trace holds no work of an iteration. If no actor
    computes, the handling of messages counts as work. Calls `damaged` for each line without an
    event. Raises Damaged or Missing if the trace cannot be read."""
    file = directory / FILE
    seen: dict[str, dict[int, tuple[float, float]]] = {COMPUTES: {}, HANDLES: {}}
    for event in _spans(file, damaged):
        if event["cat"] in seen and (number := _iteration(event)) is not None:
            times = seen[event["cat"]]
            begin, end = times.get(number, (float("inf"), 0.0))
            times[number] = min(begin, event["ts"]), max(end, event["ts"] + event["dur"])
    work = COMPUTES if seen[COMPUTES] else HANDLES
    wanted = _middle(sorted(seen[work]))
    if not wanted:
        return None
    begin = min(seen[work][number][0] for number in wanted)
    end = max(seen[work][number][1] for number in wanted)
    drawn = [
        event
        for event in _spans(file)
        if event["cat"] in (work, WAITS)
        and event["ts"] < end
        and event["ts"] + event["dur"] > begin
    ]
    drawn.sort(key=lambda event: -event["dur"])
    spans = [
        _span(event, begin, end)
        for event in sorted(drawn[:MOST_SPANS], key=lambda event: event["ts"])
    ]
    actors = sorted({span.actor for span in spans})
    return Gantt(actors, spans, min(wanted), max(wanted), len(drawn) - len(spans))


def _span(event: Event, first: float, last: float) -> Span:
    """The shown part of the event, between `first` and `last` in the trace's microseconds."""
    begin = max(first, event["ts"])
    end = min(last, event["ts"] + event["dur"])
    kind = "" if event["cat"] == WAITS else str(event.get("name", "")).partition(" ")[0]
    return Span(str(event["args"]["actor"]), kind, (begin - first) / 1000, (end - begin) / 1000)


def _middle(iterations: list[int]) -> list[int]:
    """Ten consecutive iterations of the second half of the trace, where caches are warm."""
    start = max(0, min(len(iterations) // 2, len(iterations) - ITERATIONS - 1))
    return iterations[start : start + ITERATIONS]


def _iteration(event: Event) -> int | None:
    """The training iteration of a span. None if the span belongs to a test or to no iteration."""
    number = event["args"].get("iteration")
    return (
        number
        if isinstance(number, int) and not BESIDE.search(str(event.get("name", "")))
        else None
    )


def _spans(file: Path, damaged: Callable[[str], None] = lambda line: None) -> Iterator[Event]:
    """The spans of actors."""
    for event in _events(file, damaged):
        arguments = event.get("args")
        timed = all(is_number(event.get(key)) for key in ("ts", "dur")) and isinstance(
            event.get("cat"), str
        )
        if (
            event.get("ph") == "X"
            and timed
            and isinstance(arguments, dict)
            and "actor" in arguments
        ):
            yield event


def _events(file: Path, damaged: Callable[[str], None]) -> Iterator[Event]:
    """Yield the events of the file. Lines without an event are left out and given to `damaged`,
    except brackets and an incomplete last line."""
    for line in Lines(file).rest():
        text = line.decode(errors="replace").strip()
        found = _parsed(text)
        if found is not None:
            yield from found
        elif text not in ("", "[", "]") and line.endswith(b"\n"):
            damaged(text)


def _parsed(text: str) -> list[Event] | None:
    """The events of a line. None if it is damaged."""
    # the whole array in one line, or one event a line
    for part in (text, text.removeprefix("[").rstrip(",]")):
        try:
            found = json.loads(part)
        except (ValueError, RecursionError):
            continue
        events = found if isinstance(found, list) else [found]
        return (
            events if all(isinstance(event, dict) and "ph" in event for event in events) else None
        )
    return None
