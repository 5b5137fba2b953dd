"""The parts of all processes merged into one file, `trace.json`, which Perfetto opens. All times
are on one clock, and every flow has both its ends.

The clock is the monotonic one of the host of `up`, and begins when tracing was requested. The
clocks of other hosts were compared with it several times; `Clock.within` bounds the error of the
comparison. Perfetto leaves out events before moment 0, so spans that began earlier begin there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from runtime.counting import counted
from runtime.machine.owned import open_file
from runtime.machine.private_files import replace
from runtime.records.run_files import Damaged, LeftOut, Lines, Missing, damaged, read_json
from runtime.tracing.trace_part import line

FILE = "trace.json"
FOLDER = "trace"  # holds the parts
CLOCKS = "clocks.json"
# kind of event -> its fields in microseconds
TIMED = {"X": ("ts", "dur"), "s": ("ts",), "f": ("ts",)}
MOST = 1e15  # microseconds, 30 years; larger values are damage


@dataclass(frozen=True)
class Clock:
    """The clock of a process: `ahead` of the clock of `up` by so many seconds, with an error of at
    most `within`."""

    ahead: float = 0.0
    within: float = 0.0

    @classmethod
    def of(cls, asked: Iterable[tuple[float, float, float]]) -> Clock:
        """The clock from several comparisons (time asked, time answered by it, time of the answer's
        arrival). The quickest answer gives the best estimate."""
        before, said, after = min(asked, key=lambda times: times[2] - times[0])
        return cls(said - (before + after) / 2, (after - before) / 2)


@dataclass(frozen=True)
class Merged:
    """The result of a merge. `missing` names processes that left no part. `backward` counts
    messages that arrived before they were sent, because the clocks are not exact. `notes` holds
    remarks on damaged lines of the parts, which are left out."""

    path: Path
    spans: int
    flows: int
    processes: int
    missing: tuple[str, ...]
    backward: int = 0
    notes: tuple[str, ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the event that reports the trace."""
        return {"file": FILE, "spans": self.spans, "processes": self.processes}

    def __str__(self) -> str:
        without = f"; nothing of {', '.join(self.missing)}" if self.missing else ""
        text = (
            f"{self.path}: {counted(self.spans, 'span')} of {counted(self.processes, 'process')}, "
            f"{counted(self.flows, 'message')}{without}"
        )
        early = (
            f"; {self.backward} more have no arrow: by the clocks of their hosts they "
            "arrived before they were sent"
        )
        return text + early * bool(self.backward)


def part_of(directory: Path, process: str, number: int) -> Path:
    """The path of a process's part of the run's `number`-th trace."""
    return directory / FOLDER / f"{process}.{number}.json"


def write_clocks(directory: Path, number: int, origin: float, clocks: dict[str, Clock]) -> None:
    """Write the data that `merge` needs about the `number`-th trace: the clock of each process, and
    `origin`, the time of moment 0 in seconds of `up`'s clock. Raises OSError."""
    (directory / FOLDER).mkdir(mode=0o700, exist_ok=True)
    known = {process: [clock.ahead, clock.within] for process, clock in clocks.items()}
    replace(
        directory / FOLDER / CLOCKS,
        json.dumps({"number": number, "origin": origin, "clocks": known}).encode(),
    )


def is_unmerged(directory: Path) -> bool:
    """Return whether a trace exists of which only the parts were written."""
    folder = directory / FOLDER
    return os.path.lexists(folder / CLOCKS) or (os.path.lexists(folder) and not folder.is_dir())


def merge(directory: Path) -> Merged:
    """Make trace.json of the newest trace of a run, and remove its parts. A part that cannot be
    read stays. Takes seconds for a million spans. Raises OSError if the file cannot be written.
    Raises Damaged if the clocks cannot be read; then nothing was changed."""
    folder = directory / FOLDER
    number, origin, clocks = _clocks(folder / CLOCKS)
    parts = {process: part_of(directory, process, number) for process in clocks}
    notes = list[str]()
    found = {process: path for process, path in parts.items() if _is_readable(path, notes)}
    lines = {
        process: partial(_shifted, path, clocks[process], origin) for process, path in found.items()
    }
    flows, backward = _whole(event for events in lines.values() for event in events())
    half = directory / f".{FILE}.{os.getpid()}"
    spans = 0
    used = set()
    with os.fdopen(open_file(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(b"[")
        before = b"\n"
        for events in lines.values():
            for event in events():
                if event["ph"] in "sf":
                    if (flow := flows.get(event["id"])) is None:
                        continue
                    event["id"] = flow
                    used.add(flow)
                spans += event["ph"] == "X"
                file.write(before + line(event).removesuffix(b",\n"))
                before = b",\n"
        file.write(b"\n]\n")
    half.replace(directory / FILE)
    (folder / CLOCKS).unlink()
    for path in found.values():
        path.unlink()
    missing = tuple(process for process in clocks if process not in found)
    return Merged(directory / FILE, spans, len(used), len(found), missing, backward, tuple(notes))


def _is_readable(path: Path, notes: list[str]) -> bool:
    """Return whether the part exists and can be read. Damage is added to `notes`."""
    damaged = LeftOut(path)
    try:
        for _ in _events(path, damaged):
            pass
    except Missing:
        return False
    except Damaged as error:
        notes.append(str(error))
        return False
    notes += damaged.notes
    return True


def _clocks(path: Path) -> tuple[int, float, dict[str, Clock]]:
    """The data of `write_clocks`: the number of the trace, its moment 0, and the clock of each
    process. Raises Damaged."""
    told = read_json(path)
    try:
        numbers = msgspec.convert(told["clocks"], dict[str, tuple[float, float]])
        number, origin = msgspec.convert((told["number"], told["origin"]), tuple[int, float])
    except (KeyError, msgspec.ValidationError) as error:
        raise damaged(path, error) from None
    if not all(
        map(math.isfinite, (origin, *(each for clock in numbers.values() for each in clock)))
    ):
        raise damaged(path, "a clock that is not a finite number")
    if wrong := next((process for process in numbers if Path(process).name != process), ""):
        raise damaged(path, f"a process called {wrong!r}")
    return number, origin, {process: Clock(*clock) for process, clock in numbers.items()}


def _events(
    path: Path, damaged: Callable[[str], None] = lambda line: None
) -> Iterator[dict[str, Any]]:
    """Yield the events of a part, and call `damaged` with lines that are not events. A death may
    have cut the last line, which is skipped. Raises Damaged if the part cannot be read."""
    for raw in Lines(path).whole():
        event = _event(raw.removesuffix(b",\n"))
        if event is not None:
            yield event
        elif raw != b"[\n":
            damaged(raw.decode(errors="replace").rstrip("\n"))


def _event(text: bytes) -> dict[str, Any] | None:
    """The event in a line of a part. None if the line is damaged."""
    try:
        event: dict[str, Any] = msgspec.json.decode(text)
        kind = event["ph"]
        if kind == "M":
            return event if isinstance(event["name"], str) else None
        timed = TIMED[kind]
        whole = all(-MOST < event[field] < MOST for field in timed) and (
            kind == "X" or isinstance(event["id"], str)
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return event if whole else None


def _shifted(path: Path, clock: Clock, origin: float) -> Iterator[dict[str, Any]]:
    """Yield the events of a part on the common clock, from moment 0 on."""
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
    """The flows with both ends, numbered, and the number of flows left out because they end before
    they begin."""
    begins = dict[str, float]()
    ends = dict[str, float]()
    for event in events:
        if event["ph"] == "s":
            begins[event["id"]] = event["ts"]
        elif event["ph"] == "f":
            ends[event["id"]] = event["ts"]
    both = sorted(begins.keys() & ends.keys())
    forward = [flow for flow in both if begins[flow] <= ends[flow]]
    return {flow: number for number, flow in enumerate(forward, 1)}, len(both) - len(forward)
