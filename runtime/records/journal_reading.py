"""Reading what a run has journalled: whole lines only, also while it is written, and also what
older versions wrote."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from runtime.records.run_files import Lines

FILE = "events.jsonl"
LONGEST = 1e12  # seconds of a run; what is beyond is damage
MOST = 1e100  # of numbers: more than single precision has, and charts can still be drawn
# fields as versions before 2026-11-25 called them
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
    """The events of a run directory in order, each with `t`, `actor`, `event` and its fields;
    `damaged` hears every line that is none. A last line without its end is still being written, or
    a run was killed in it. Damaged, Missing."""
    for raw in Lines(directory / FILE).whole():
        line = raw.decode(errors="replace")
        found = event_of(line)
        if found is None:
            damaged(line.rstrip("\n"))
        else:
            yield found


def torn(directory: Path) -> list[str]:
    """What is wrong with the end of a journal that nobody writes any more, in one line; an empty
    list if nothing is: every run that began has an event, and every event ends its line. Damaged,
    Missing."""
    path = directory / FILE
    last = next(iter(deque(Lines(path).rest(), maxlen=1)), b"")
    if not last:
        return [
            (
                f"{path}: it is empty; expected the journal of a run, so what happened in "
                "the run is not known"
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
    """The event of a line; None if it is damaged."""
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
    """Whether it is a finite number; a journal that was tampered with may hold anything."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST < value < MOST


def is_path(value: object) -> TypeGuard[str]:
    """Whether it is a text that a file can be called: no NUL, no half of a character."""
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def modern(event: Mapping[str, Any]) -> dict[str, Any]:
    """The same event with the fields of today: "iteration": "100/400" became two numbers, units
    joined the names."""
    found = {RENAMED.get(name, name): value for name, value in event.items()}
    iteration = found.get("iteration")
    if isinstance(iteration, str):
        done, _, last = iteration.partition("/")
        found["iteration"] = int(done)
        if last:
            found["max_iter"] = int(last)
    return found
