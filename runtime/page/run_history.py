"""The history of a run, read from its run directory: series of numbers, events and state. The run
may still be writing it."""

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

from runtime.page.histograms import Heat, Key, read_histograms
from runtime.page.series import Series
from runtime.plan.run_plan import placement_in
from runtime.plan.topology import Placement
from runtime.records.journal_reading import FILE, events_of, is_number
from runtime.records.run_files import Damaged, LeftOut, Lines, Missing
from runtime.records.run_identity import recorded
from runtime.report import usage
from runtime.report.run_phase import ENDING, ENDS, after
from runtime.report.run_state import CONFUSION

NUMBERS = ("progress", "test", "prediction")  # events with numbers that become curves
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
    "left",
    "joined",
    "anchored",
    "straggler",
    "caught up",
    "resumed",
    *ENDING,
    "missed",
    "misprediction",
}
DECISIONS = {"tuning", "probe", "regrouped", "compensated"}
MOST_TOLD = 200  # events of a kind shown at most: the last ones

Event = Mapping[str, Any]


@dataclass
class RunHistory:
    """The history of one run. `marks` are seconds -> iterations that had ended by then. `last`
    holds the latest event of each name."""

    directory: Path
    lives: bool = False
    began: float | None = None  # seconds since 1970
    seconds: float = 0.0
    read_to: int = 0  # bytes of the journal
    names: Counter[str] = field(default_factory=Counter)  # event name -> count
    series: dict[tuple[str, str], Series] = field(default_factory=dict)
    marks: tuple[array[float], array[float]] = field(
        default_factory=lambda: (array("d"), array("d"))
    )
    last: dict[str, Event] = field(default_factory=dict)
    confusions: dict[str, Event] = field(default_factory=dict)  # test net -> its last matrix
    histograms: dict[Key, Heat] = field(default_factory=dict)
    told: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_TOLD))
    decisions: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_TOLD))
    decided: int = 0
    # the first and the last line of each process
    usage: list[dict[str, Any]] = field(default_factory=list)
    placement: Placement | None = None
    # damaged files, and how many of their lines are left out
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # other parts that are not shown
    forerunners: list[str] = field(default_factory=list)  # names, the oldest first
    offset: float = 0.0  # seconds that the forerunners took
    label: str = ""  # its name in charts of several runs

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.directory.name

    @property
    def count(self) -> int:
        """The number of its events."""
        return self.names.total()

    @property
    def state(self) -> str:
        """The state of the run, as `RunPhase` names it. A run held for a moment counts as
        running."""
        return after(self.last.keys() - {"held", "released"}).status(lives=self.lives)

    @property
    def ended(self) -> Event:
        """The event with which the lead ended its training. Empty if there is none."""
        return next((self.last[name] for name in ENDS if name in self.last), {})

    @property
    def since(self) -> str:
        """The start of the run, for people."""
        try:
            moment = datetime.fromtimestamp(math.nan if self.began is None else self.began)
        except (ValueError, OverflowError, OSError):
            return "not known"
        return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")

    @property
    def begun(self) -> int:
        """The iteration at which the run resumed another one; 0 if it did not."""
        iteration = self.last.get("resumed", {}).get("iteration")
        return int(iteration) if is_number(iteration) else 0

    def iterations_at(self, seconds: float) -> float:
        """The iterations that had ended by then, interpolated between reports."""
        times, done = self.marks
        at = bisect_right(times, seconds)
        if at == 0 or at == len(times):
            return done[at - 1] if at else self.begun
        share = (seconds - times[at - 1]) / ((times[at] - times[at - 1]) or 1.0)
        return done[at - 1] + share * (done[at] - done[at - 1])


def read(directory: Path, *, lives: bool) -> RunHistory:
    """The history of the run in this directory. Raises Damaged if its journal cannot be read."""
    story = RunHistory(directory, lives)
    damaged = LeftOut(directory / FILE)
    journal = Lines(directory / FILE)
    for event in events_of(journal, damaged):
        _hear(story, event)
    story.read_to = journal.read_to
    story.damaged += damaged.notes
    try:
        recorded(directory)  # run.json names the run that this one continues
    except Missing:  # a run of an older version
        pass
    except Damaged as error:
        story.damaged.append(str(error))
    story.usage = list(_usage(directory, story))
    try:
        story.histograms, notes = read_histograms(directory)
        story.damaged += notes
    except Damaged as error:
        story.damaged.append(str(error))
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
    elif name == CONFUSION:
        story.confusions[str(event.get("net", ""))] = event
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
        if done and done[-1] >= iteration:  # the run went back to an earlier iteration
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
                    raise ValueError  # noqa: TRY301  # handled like invalid JSON
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                damaged(line.decode(errors="replace").rstrip("\n"))
                continue
            first.setdefault(process, found)
            last[process] = found
    except Missing:  # a run of an older version, or too short to write any
        return
    except Damaged as error:
        story.damaged.append(str(error))
        return
    story.damaged += damaged.notes
    for process, found in last.items():
        yield first[process]
        yield found


def _is_usage(line: Mapping[str, Any]) -> bool:
    """Return whether the line holds the expected types. Raises KeyError, TypeError or another error
    if parts are missing."""
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
            f"{error}: the placement of its actors and the planned traffic are not known"
        )
        return None
