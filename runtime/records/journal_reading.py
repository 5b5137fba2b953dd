"""Reading the journal of a run. Only complete lines are read, also from a journal that is being
written. Journals of older versions can be read too."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from runtime.records.run_files import Lines

FILE = "events.jsonl"
LONGEST = 1e12  # seconds of a run; a larger time is damage
MOST = 1e100  # largest number: above the range of single precision, and charts can still draw it
# the names of fields in versions before 2026-11-25 -> their names today
RENAMED = {
    "images/s": "images_per_second",
    "exposed s": "exposed_seconds",
    "exposed": "exposed_seconds",
    "predicted s": "predicted_seconds",
    "measured s": "measured_seconds",
    "work s": "work_seconds",
    "message s": "message_seconds",
    "rest s": "rest_seconds",
    "predicted use": "predicted_use",
    "measured use": "measured_use",
}


def events(directory: Path, damaged: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Yield the events of a run directory in order, each with `t`, `actor`, `event` and its fields.

    `damaged` is called with every line that is not an event. A last line without an end of line is
    left out: it is still being written, or the run was killed while writing it. Raises Damaged or
    Missing.
    """
    yield from events_of(Lines(directory / FILE), damaged)


def events_of(lines: Lines, damaged: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Yield the events in the complete lines of a journal that were not read before, as `events`
    does."""
    for raw in lines.whole():
        line = raw.decode(errors="replace")
        found = event_of(line)
        if found is None:
            damaged(line.rstrip("\n"))
        else:
            yield found


def torn(directory: Path) -> list[str]:
    """Return the fault at the end of a journal that is not written any more, as a list of one line.

    The list is empty if the end is whole: every run that began has at least one event, and every
    event ends its line. Raises Damaged or Missing.
    """
    path = directory / FILE
    last = next(iter(deque(Lines(path).rest(), maxlen=1)), b"")
    if not last:
        return [
            (
                f"{path}: it is empty; expected the journal of a run, so the events of "
                "the run are not known"
            )
        ]
    if not last.endswith(b"\n"):
        return [
            (
                f"{path}: its last line has no end and is left out: `up` was killed, or the "
                "file was cut"
            )
        ]
    return []


def event_of(line: str) -> dict[str, Any] | None:
    """Return the event in a line, or None if the line is damaged."""
    try:
        found = json.loads(line)
        found["t"] = float(found["t"])
        whole = (
            0 <= found["t"] < LONGEST
            and isinstance(found["event"], str)
            and isinstance(found["actor"], str)
        )
        return modern(found) if whole else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether `value` is a finite number. A journal that was edited by hand may hold any value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST < value < MOST


def is_path(value: object) -> TypeGuard[str]:
    """Whether `value` is text that can be the name of a file: without NUL and without lone
    surrogates."""
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def modern(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same event with today's fields. Older versions wrote iterations as "100/400",
    which are two numbers today, and left units out of the names."""
    found = {RENAMED.get(name, name): value for name, value in event.items()}
    iteration = found.get("iteration")
    if isinstance(iteration, str):
        done, _, last = iteration.partition("/")
        found["iteration"] = int(done)
        if last:
            found["max_iter"] = int(last)
    return found
