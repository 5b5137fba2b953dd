"""Ten iterations of a trace: what each actor did when. Reads `trace.json` of a run directory.

That is the Trace Event Format of Chrome, an array of objects, one a line; the bracket at its end may be missing. It may
be larger than memory: it is read line by line, twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "trace.json"
ITERATIONS = 10
MOST_SPANS = 4000  # that are drawn: the longest

Event = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A piece of an actor's time in milliseconds since the first that is shown."""

    row: str
    name: str
    begin: float
    length: float
    iteration: int


@dataclass(frozen=True)
class Gantt:
    """`left_out`: spans that are shorter than those which are shown."""

    rows: list[str]
    spans: list[Span]
    first: int
    last: int
    left_out: int = 0


def gantt(directory: Path) -> Gantt | None:
    """None where there is no trace, or nothing of an iteration in it."""
    file = directory / FILE
    try:
        seen: dict[int, float] = {}  # iteration -> when its first span begins
        names: dict[tuple[Any, Any], str] = {}
        for event in _events(file):
            _name(names, event)
            if (number := _iteration(event)) is not None:
                seen[number] = min(seen.get(number, float("inf")), event["ts"])
        wanted = _middle(sorted(seen))
        if not wanted:
            return None
        spans = [event for event in _events(file) if _iteration(event) in wanted]
    except OSError:
        return None
    begin = min(event["ts"] for event in spans)
    spans.sort(key=lambda event: -event["dur"])
    kept = sorted(spans[:MOST_SPANS], key=lambda event: event["ts"])
    found = [
        Span(
            names.get((event.get("pid"), event.get("tid"))) or f"{event.get('pid')}/{event.get('tid')}",
            str(event.get("name", "")),
            (event["ts"] - begin) / 1000,
            event["dur"] / 1000,
            event["args"]["iteration"],
        )
        for event in kept
    ]
    rows = sorted({span.row for span in found})
    return Gantt(rows, found, min(wanted), max(wanted), len(spans) - len(kept))


def _middle(iterations: list[int]) -> set[int]:
    """Ten in a row, of the second half of the trace: caches are warm there."""
    start = max(0, min(len(iterations) // 2, len(iterations) - ITERATIONS - 1))
    return set(iterations[start : start + ITERATIONS])


def _iteration(event: Event) -> int | None:
    """Of a span; None if it is none, or of no iteration."""
    arguments = event.get("args")
    number = arguments.get("iteration") if isinstance(arguments, dict) else None
    timed = all(isinstance(event.get(key), int | float) for key in ("ts", "dur"))
    return number if event.get("ph") == "X" and isinstance(number, int) and timed else None


def _name(names: dict[tuple[Any, Any], str], event: Event) -> None:
    if event.get("ph") == "M" and event.get("name") == "thread_name":
        arguments = event.get("args")
        said = arguments.get("name") if isinstance(arguments, dict) else None
        names[event.get("pid"), event.get("tid")] = str(said or "")


def _events(file: Path) -> Iterator[Event]:
    """Lines that hold no event, such as a bracket or the half of one, are left out."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = line.strip()
            for part in (text, text.removeprefix("[").rstrip(",]")):  # all in one line, or an event a line
                try:
                    found = json.loads(part)
                except (ValueError, RecursionError):
                    continue
                yield from (event for event in (found if isinstance(found, list) else [found]) if _is_event(event))
                break


def _is_event(event: Any) -> bool:
    return isinstance(event, dict)
