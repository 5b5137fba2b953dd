"""The parts of all processes as one file, `trace.json`, which Perfetto opens: on one clock, every flow with both ends.

The clock is the monotonic one of the host of `up`, from the moment at which tracing was asked for. What another host's
clock says was asked for beside it, several times; `Clock.within` is how far the answer may be off. Perfetto leaves out
what lies before moment 0: spans that began earlier begin there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from runtime.machine.files import replace
from runtime.machine.owned import open_file
from runtime.tracing.part import line

FILE = "trace.json"
FOLDER = "trace"  # of the parts
CLOCKS = "clocks.json"


@dataclass(frozen=True)
class Clock:
    """Of a process: `ahead` of that of `up` by so many seconds, `within` so many."""

    ahead: float = 0.0
    within: float = 0.0

    @classmethod
    def of(cls, asked: Iterable[tuple[float, float, float]]) -> Clock:
        """From (when it was asked, what it said, when the answer came): the quickest answer is the best."""
        before, said, after = min(asked, key=lambda times: times[2] - times[0])
        return cls(said - (before + after) / 2, (after - before) / 2)


@dataclass(frozen=True)
class Merged:
    """What became a trace. `missing`: processes that left no part; `backward`: messages that came before they were
    sent, by clocks that are not quite right."""

    path: Path
    spans: int
    flows: int
    processes: int
    missing: tuple[str, ...]
    backward: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        """Of the event that tells of it."""
        return {"file": FILE, "spans": self.spans, "processes": self.processes}

    def __str__(self) -> str:
        without = f"; nothing of {', '.join(self.missing)}" if self.missing else ""
        text = f"{self.path}: {self.spans} spans of {self.processes} processes, {self.flows} messages{without}"
        early = f"; {self.backward} more have no arrow: by the clocks of their hosts they came before they were sent"
        return text + early * bool(self.backward)


def part_of(directory: Path, process: str, number: int) -> Path:
    """Where a process of a run leaves its part of the run's `number`-th trace."""
    return directory / FOLDER / f"{process}.{number}.json"


def write_clocks(directory: Path, number: int, origin: float, clocks: dict[str, Clock]) -> None:
    """What `merge` needs to know of the `number`-th trace: of each process its clock; `origin`, in seconds of `up`'s
    clock, is moment 0. OSError."""
    (directory / FOLDER).mkdir(mode=0o700, exist_ok=True)
    known = {process: [clock.ahead, clock.within] for process, clock in clocks.items()}
    replace(directory / FOLDER / CLOCKS, json.dumps({"number": number, "origin": origin, "clocks": known}).encode())


def is_unmerged(directory: Path) -> bool:
    """Is there a trace that has parts only?"""
    return (directory / FOLDER / CLOCKS).exists()


def merge(directory: Path) -> Merged:
    """Make trace.json of the newest trace of a run, and remove its parts. Takes seconds for a million spans. OSError,
    ValueError if the folder of the parts is not ours."""
    folder = directory / FOLDER
    told = json.loads((folder / CLOCKS).read_text())
    clocks = {process: Clock(*clock) for process, clock in told["clocks"].items()}
    parts = {process: part_of(directory, process, told["number"]) for process in clocks}
    found = {process: path for process, path in parts.items() if path.exists()}
    lines = {process: partial(_shifted, path, clocks[process], told["origin"]) for process, path in found.items()}
    flows, backward = _whole(event for events in lines.values() for event in events())
    half = directory / f".{FILE}.{os.getpid()}"
    spans, used = 0, set()
    with os.fdopen(open_file(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(b"[")
        before = b"\n"
        for events in lines.values():
            for event in events():
                if event["ph"] in "sf":
                    if (number := flows.get(event["id"])) is None:
                        continue
                    event["id"] = number
                    used.add(number)
                spans += event["ph"] == "X"
                file.write(before + line(event).removesuffix(b",\n"))
                before = b",\n"
        file.write(b"\n]\n")
    half.replace(directory / FILE)
    (folder / CLOCKS).unlink()
    for path in found.values():
        path.unlink()
    missing = tuple(process for process in clocks if process not in found)
    return Merged(directory / FILE, spans, len(used), len(found), missing, backward)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Of a part. A line that a death has cut is left out."""
    with path.open("rb") as file:
        for text in file:
            try:
                event = msgspec.json.decode(text.removesuffix(b",\n"))
            except msgspec.DecodeError:
                continue
            if isinstance(event, dict) and "ph" in event:
                yield event


def _shifted(path: Path, clock: Clock, origin: float) -> Iterator[dict[str, Any]]:
    """The events of a part on the clock of all, from moment 0 on."""
    shift = round((clock.ahead + origin) * 1e9)
    for event in _events(path):
        if event["ph"] == "M":
            if event["name"] == "process_name" and clock.within:
                label = {"labels": f"clock within {clock.within * 1e3:.3g} ms"}
                yield {**event, "name": "process_labels", "args": label}
        else:
            began = round(event["ts"] * 1000) - shift
            event["ts"] = max(began, 0) / 1000
            if event["ph"] == "X":
                event["dur"] = max(round(event["dur"] * 1000) + min(began, 0), 0) / 1000
        yield event


def _whole(events: Iterable[dict[str, Any]]) -> tuple[dict[str, int], int]:
    """Flows of which both ends are there, numbered; how many were left out because they end before they begin."""
    begins, ends = dict[str, float](), dict[str, float]()
    for event in events:
        if event["ph"] == "s":
            begins[event["id"]] = event["ts"]
        elif event["ph"] == "f":
            ends[event["id"]] = event["ts"]
    both = sorted(begins.keys() & ends.keys())
    forward = [flow for flow in both if begins[flow] <= ends[flow]]
    return {flow: number for number, flow in enumerate(forward, 1)}, len(both) - len(forward)
