"""What a run directory tells of its run: numbers as series, what happened, how it stands. It may
still be written."""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from runtime.page.series import Series
from runtime.plan.run_plan import placement_in
from runtime.plan.topology import Placement
from runtime.records.journal_reading import FILE, events, is_number
from runtime.records.run_files import Damaged, LeftOut, Lines, Missing
from runtime.records.run_identity import recorded
from runtime.report import usage
from runtime.report.run_phase import ENDING, ENDS, after

NUMBERS = ("progress", "test", "prediction")  # events whose numbers are curves
NO_CURVES = {"t", "unix_seconds", "iteration", "max_iter", "elapsed_seconds"}
TOLD = {
    "warning",
    "link lost",
    "unsaved",
    "failed",
    "restart",
    "healed",
    "scaled",
    "continued",
    "leaving",
    "straggler",
    "caught up",
    "resumed",
    *ENDING,
    "missed",
    "misprediction",
}
DECISIONS = {"tuning", "probe", "regrouped"}
MOST_TOLD = 200  # events of a kind that are shown; of more the last

Event = Mapping[str, Any]


@dataclass
class RunHistory:
    """Of one run. `marks`: seconds -> iterations that had ended; `last`: the latest event of each
    name."""

    directory: Path
    lives: bool = False
    began: float | None = None  # seconds since 1970
    seconds: float = 0.0
    names: Counter[str] = field(default_factory=Counter)  # of events
    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    marks: tuple[array[float], array[float]] = field(
        default_factory=lambda: (array("d"), array("d"))
    )
    last: dict[str, Event] = field(default_factory=dict)
    told: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_TOLD))
    decisions: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_TOLD))
    decided: int = 0
    # of each process the first line and the last
    usage: list[dict[str, Any]] = field(default_factory=list)
    placement: Placement | None = None
    # files, and so many lines of them, that are not shown
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what else is not shown
    forerunners: list[str] = field(default_factory=list)  # names, the first of all first
    offset: float = 0.0  # seconds of the forerunners
    label: str = ""  # in charts of several runs

    @property
    def name(self) -> str:
        """Of the run."""
        return self.directory.name

    @property
    def count(self) -> int:
        """Of its events."""
        return self.names.total()

    @property
    def state(self) -> str:
        """How it stands, as `course` says; one that is held for a moment is running."""
        return after(self.last.keys() - {"held", "released"}).status(lives=self.lives)

    @property
    def ended(self) -> Event:
        """The lead's last word on its training; empty, if it has said none."""
        return next((self.last[name] for name in ENDS if name in self.last), {})

    @property
    def since(self) -> str:
        """When it began, for people."""
        try:
            moment = datetime.fromtimestamp(math.nan if self.began is None else self.began)
        except (ValueError, OverflowError, OSError):
            return "not known"
        return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")

    @property
    def begun(self) -> int:
        """The iteration that it went on from."""
        iteration = self.last.get("resumed", {}).get("iteration")
        return int(iteration) if is_number(iteration) else 0

    def iterations_at(self, seconds: float) -> float:
        """How many had ended by then, between two reports in proportion."""
        times, done = self.marks
        at = bisect_right(times, seconds)
        if at == 0 or at == len(times):
            return done[at - 1] if at else self.begun
        share = (seconds - times[at - 1]) / ((times[at] - times[at - 1]) or 1.0)
        return done[at - 1] + share * (done[at] - done[at - 1])


def read(directory: Path, *, lives: bool) -> RunHistory:
    """The story of the run in this directory. Damaged if it has no journal that can be read."""
    story = RunHistory(directory, lives)
    damaged = LeftOut(directory / FILE)
    for event in events(directory, damaged):
        _hear(story, event)
    story.damaged += damaged.notes
    try:
        recorded(directory)  # it says which run this one continues
    except Missing:  # a run of an older version
        pass
    except Damaged as error:
        story.damaged.append(str(error))
    story.usage = list(_usage(directory, story))
    story.placement = _placement(directory, story)
    return story


def _hear(story: RunHistory, event: Event) -> None:
    name = event["event"]
    at = float(event["t"])
    if story.began is None and is_number(event.get("unix_seconds")):
        story.began = event["unix_seconds"] - at
    story.seconds = max(story.seconds, at)
    story.names[name] += 1
    story.last[name] = event
    if name in NUMBERS:
        _number(story, event, story.names[name])
    elif name in TOLD:
        story.told.append(event)
    elif name in DECISIONS:
        story.decisions.append(event)
        story.decided += 1


def _number(story: RunHistory, event: Event, count: int) -> None:
    name = event["event"]
    at = float(event["t"])
    iteration = event.get("iteration", count if name != "prediction" else story.iterations_at(at))
    if not is_number(iteration):
        return
    if name == "progress":
        times, done = story.marks
        if done and done[-1] >= iteration:  # the run went back
            keep = bisect_left(done, iteration)
            del times[keep:], done[keep:]
        times.append(at)
        done.append(iteration)
    kind = f"{name} {event['net']}" if event.get("net") else name
    for field_name, value in event.items():
        if is_number(value) and field_name not in NO_CURVES:
            story.series.setdefault((kind, field_name), Series()).add(
                float(iteration), at, float(value)
            )


def _usage(directory: Path, story: RunHistory) -> Iterator[dict[str, Any]]:
    first = dict[str, dict[str, Any]]()
    last = dict[str, dict[str, Any]]()
    damaged = LeftOut(directory / usage.FILE)
    try:
        for line in Lines(directory / usage.FILE).whole():
            try:
                found = json.loads(line)
                process = str(found["process"])
                if not _is_usage(found):
                    raise ValueError  # noqa: TRY301  # as what is no JSON
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                damaged(line.decode(errors="replace").rstrip("\n"))
                continue
            first.setdefault(process, found)
            last[process] = found
    except Missing:  # a run of an older version, or one that had no time to write any
        return
    except Damaged as error:
        story.damaged.append(str(error))
        return
    story.damaged += damaged.notes
    for process, found in last.items():
        yield first[process]
        yield found


def _is_usage(line: Mapping[str, Any]) -> bool:
    """Is everything in it what it should be? Errors of what is missing come through."""
    numbers = [line["t"]]
    for totals in line["actors"].values():
        numbers += [*totals["waited_seconds"].values(), *totals["received_bytes"].values()]
        for pieces, seconds, squares in totals["work"].values():
            numbers += [pieces, seconds, squares]
        if not isinstance(totals["role"], str):
            return False
    return all(map(is_number, numbers))


def _placement(directory: Path, story: RunHistory) -> Placement | None:
    try:
        return placement_in(directory)
    except Damaged as error:
        story.damaged.append(
            f"{error}: who lived where, and the traffic that was planned, is not known"
        )
        return None
