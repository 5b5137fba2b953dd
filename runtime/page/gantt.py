"""Ten iterations of a trace: what each actor computed and waited for when. Reads `trace.json` of a
run directory.

That is the Trace Event Format of Chrome, an array of objects, one a line; the bracket at its end
may be missing. It may be larger than memory: it is read line by line, twice.
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
MOST_SPANS = 4000  # that are drawn: the longest
COMPUTES = "compute"  # `cat` of what may be drawn
HANDLES = "handle"
WAITS = "wait"

Event = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A piece of an actor's time in milliseconds since the first that is shown. `kind`: the first
    word of what it works at; "" where it waits."""

    actor: str
    kind: str
    begin: float
    length: float


@dataclass(frozen=True)
class Gantt:
    """`left_out`: spans that are shorter than those which are shown."""

    actors: list[str]
    spans: list[Span]
    first: int
    last: int
    left_out: int = 0

    @property
    def kinds(self) -> list[str]:
        """Of work, in the order of their names; what is no work of training comes last."""
        return sorted(
            {span.kind for span in self.spans} - {""},
            key=lambda kind: (bool(BESIDE.search(kind)), kind),
        )


def gantt(directory: Path, damaged: Callable[[str], None] = lambda line: None) -> Gantt | None:
    """None where nothing of an iteration is in the trace. Where nobody computes, work is the
    handling of messages. `damaged` hears of lines without an event. Damaged, Missing if the trace
    cannot be read."""
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
    """The part of it that is shown, from `first` to `last` of the trace's microseconds."""
    begin = max(first, event["ts"])
    end = min(last, event["ts"] + event["dur"])
    kind = "" if event["cat"] == WAITS else str(event.get("name", "")).partition(" ")[0]
    return Span(str(event["args"]["actor"]), kind, (begin - first) / 1000, (end - begin) / 1000)


def _middle(iterations: list[int]) -> list[int]:
    """Ten in a row, of the second half of the trace: caches are warm there."""
    start = max(0, min(len(iterations) // 2, len(iterations) - ITERATIONS - 1))
    return iterations[start : start + ITERATIONS]


def _iteration(event: Event) -> int | None:
    """Of training that a span belongs to; None if it is of a test, or of no iteration."""
    number = event["args"].get("iteration")
    return (
        number
        if isinstance(number, int) and not BESIDE.search(str(event.get("name", "")))
        else None
    )


def _spans(file: Path, damaged: Callable[[str], None] = lambda line: None) -> Iterator[Event]:
    """Those of actors."""
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
    """Lines that hold no event are left out; `damaged` hears of them, but for brackets and a last
    line without end."""
    for line in Lines(file).rest():
        text = line.decode(errors="replace").strip()
        found = _parsed(text)
        if found is not None:
            yield from found
        elif text not in ("", "[", "]") and line.endswith(b"\n"):
            damaged(text)


def _parsed(text: str) -> list[Event] | None:
    """The events of a line; None if it is damaged."""
    for part in (text, text.removeprefix("[").rstrip(",]")):  # all in one line, or an event a line
        try:
            found = json.loads(part)
        except (ValueError, RecursionError):
            continue
        events = found if isinstance(found, list) else [found]
        return (
            events if all(isinstance(event, dict) and "ph" in event for event in events) else None
        )
    return None
