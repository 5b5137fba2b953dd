"""What Chrome's Trace Event format asks of a file (JSON array format), checked by its published
rules:

- a JSON array of events; the closing bracket may be missing, so that what is written up to any line
  is valid
- X: complete events with ts and dur in microseconds; those of one thread nest
- M: metadata, which name processes and threads
- s, f: a flow has one beginning and one end of the same name, category and id, each within a slice
  of its thread

And by what Perfetto does beside them: it leaves out what lies before moment 0, and draws an arrow
from the innermost slice at its beginning to that at its end, or the other way round where the
second begins first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

Event = dict[str, Any]
PHASES = set("XMsf")


def closed(path: Path) -> list[Event]:
    """The events of a whole file."""
    found: list[Event] = json.loads(path.read_text())
    return found


def cut(text: str) -> list[Event]:
    """Those of a file that was cut: half a line is left out, and the bracket is closed."""
    whole = text[: text.rindex("\n") + 1].rstrip().removesuffix(",")
    found: list[Event] = json.loads(whole + "]" * (not whole.endswith("]")))
    return found


def check(events: list[Event]) -> None:
    """AssertionError if a rule is broken."""
    assert {event["ph"] for event in events} <= PHASES
    named = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    processes = {event["pid"] for event in events if event["name"] == "process_name"}
    slices: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    flows: dict[str, dict[Any, Event]] = {"s": {}, "f": {}}
    for event in events:
        assert event["pid"] in processes and event.get("ts", 0) >= 0
        if event["ph"] == "X":
            where = event["pid"], event["tid"]
            assert where in named and event["name"] and event["dur"] >= 0
            assert type(event["args"].get("iteration", 0)) is int and named[where].startswith(
                event["args"]["actor"]
            )
            slices[where].append(
                (round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000))
            )
        elif event["ph"] in "sf":
            assert type(event["id"]) is int and event["id"] not in flows[event["ph"]]
            flows[event["ph"]][event["id"]] = event
    for spans in slices.values():
        nest(spans)
    assert flows["s"].keys() == flows["f"].keys(), "every flow has both ends"
    for number, begin in flows["s"].items():
        end = flows["f"][number]
        assert (begin["name"], begin["cat"]) == (end["name"], end["cat"]) and end["bp"] == "e"
        assert begin["ts"] <= end["ts"], "nothing arrives before it was sent"
        assert innermost(slices, begin) <= innermost(slices, end), (
            "the arrow goes from who sent to who got it"
        )


def innermost(slices: dict[tuple[int, int], list[tuple[int, int]]], half: Event) -> int:
    """When the last slice began that is under way at this end of a flow. ValueError if there is
    none."""
    at = round(half["ts"] * 1000)
    return max(first for first, last in slices[half["pid"], half["tid"]] if first <= at <= last)


def nest(spans: list[tuple[int, int]]) -> None:
    """Of two spans of a thread one lies in the other, or they have nothing in common."""
    open_until: list[int] = []
    for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_until and open_until[-1] <= first:
            open_until.pop()
        assert not open_until or last <= open_until[-1]
        open_until.append(last)
