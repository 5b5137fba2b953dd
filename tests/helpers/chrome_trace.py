"""Checks of a trace file by the published rules of Chrome's Trace Event format (JSON array format).

- the file is a JSON array of events; the closing bracket may be missing, so that the text up to any
  line is valid
- X: complete events with ts and dur in microseconds; the events of one thread nest
- M: metadata, which name processes and threads
- s, f: a flow has one beginning and one end of the same name, category and id, each within a slice
  of its thread

Two more rules follow from the behaviour of Perfetto. It leaves out everything before moment 0. It
draws an arrow from the innermost slice at a flow's beginning to the innermost slice at its end, but
reverses the arrow if the second slice begins first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

Event = dict[str, Any]
PHASES = set("XMsf")


def closed(path: Path) -> list[Event]:
    """The events of a complete file."""
    found: list[Event] = json.loads(path.read_text())
    return found


def cut(text: str) -> list[Event]:
    """The events of a file that was cut: the incomplete last line is dropped, and the bracket is
    closed.
    """
    whole = text[: text.rindex("\n") + 1].rstrip().removesuffix(",")
    found: list[Event] = json.loads(whole + "]" * (not whole.endswith("]")))
    return found


def check(events: list[Event]) -> None:
    """Raise AssertionError if a rule is broken."""
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
    assert flows["s"].keys() == flows["f"].keys(), "a flow lacks an end"
    for number, begin in flows["s"].items():
        end = flows["f"][number]
        assert (begin["name"], begin["cat"]) == (end["name"], end["cat"]) and end["bp"] == "e"
        assert begin["ts"] <= end["ts"], "a message arrives before it was sent"
        assert innermost(slices, begin) <= innermost(slices, end), (
            "Perfetto would reverse the arrow from sender to receiver"
        )


def innermost(slices: dict[tuple[int, int], list[tuple[int, int]]], half: Event) -> int:
    """The beginning of the innermost slice at this end of a flow. Raises ValueError if no slice
    contains it.
    """
    at = round(half["ts"] * 1000)
    return max(first for first, last in slices[half["pid"], half["tid"]] if first <= at <= last)


def nest(spans: list[tuple[int, int]]) -> None:
    """Check that any two spans of a thread are nested or disjoint."""
    open_until: list[int] = []
    for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_until and open_until[-1] <= first:
            open_until.pop()
        assert not open_until or last <= open_until[-1]
        open_until.append(last)
