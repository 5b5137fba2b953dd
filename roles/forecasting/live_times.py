"""Service times of a live run, from the sums of work that its processes report. Plain
arithmetic.

All reports before the coordinator's second report of iterations are left out: first pieces are
slow, and by then every process has reported some. Then a window slides in two steps. It reaches
back over at least SECONDS and ITERATIONS, and over at most twice as much (or over all reports so
far).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roles.learning.scoreboard import ITERATION
from runtime.compute.work_sums import PROCESSOR, Sums

SECONDS = 10.0
ITERATIONS = 20
# seconds of silence after which an actor had nothing to report, as the coordinator during a test
SILENT = 1.5
# the first parts of the labels of work that is not training
NOT_TRAINING = (ITERATION, PROCESSOR, "test", "fc TEST")
Labels = dict[str, tuple[float, ...]]  # label -> count, seconds, sum of squares
NONE = (0.0, 0.0, 0.0)


@dataclass
class _Actor:
    """The last report of an actor: its time and its sums. Also the time and sums at the start of
    the window, and at the start of the next window."""

    at: float
    sums: Labels = field(default_factory=dict)
    since: float = 0.0
    start: Labels = field(default_factory=dict)
    next_since: float = 0.0
    next_start: Labels = field(default_factory=dict)
    # its next report may include work from before the window, so the window starts at that report
    is_late: bool = False

    def begin(self) -> None:
        """Start the window and the next window now."""
        self.since = self.next_since = self.at
        self.start = dict(self.sums)
        self.next_start = dict(self.sums)

    def slide(self) -> None:
        """Make the next window the window, and start a next one now."""
        self.since = self.next_since
        self.start = self.next_start
        self.next_since = self.at
        self.next_start = dict(self.sums)

    def window(self) -> Labels:
        """The sums over the window."""
        pairs = {
            label: zip(sums, self.start.get(label, NONE), strict=True)
            for label, sums in self.sums.items()
        }
        found = {label: tuple(now - then for now, then in pair) for label, pair in pairs.items()}
        return {label: sums for label, sums in found.items() if sums[0]}


class LiveTimes:
    """The service times of the actors of one run; `lead` is the coordinator."""

    def __init__(self, lead: str) -> None:
        self._lead = lead
        self._actors: dict[str, _Actor] = {}
        self._told = 0  # reports of iterations by the lead, counted up to 2

    def __repr__(self) -> str:
        return f"<live times of {len(self._actors)} actors, {self.iterations:g} iterations>"

    def hear(self, sums: Sums, now: float) -> None:
        """Take the sums of some actors; `now` is loop time in seconds."""
        for name, labels in sums.items():
            self._hear(name, {label: tuple(found) for label, found in labels.items()}, now)
        for actor in self._actors.values():
            actor.at = now if now - actor.at > SILENT else actor.at
        if self._told < 2 and ITERATION in sums.get(self._lead, {}):
            self._told += 1
            self.begin_anew()
        lead = self._actors.get(self._lead)
        if lead is not None and self._is_enough(lead):
            for actor in self._actors.values():
                actor.slide()

    def begin_anew(self) -> None:
        """Forget the reports so far: the run has changed."""
        for actor in self._actors.values():
            actor.begin()

    def begin_with_the_next(self) -> None:
        """Forget the reports so far and also part of the next ones: the run has changed.

        Actors report once a second, so the next report includes work from before the change. The
        window of each actor starts with its next report.
        """
        self.begin_anew()
        for actor in self._actors.values():
            actor.is_late = True

    @property
    def iterations(self) -> int:
        """The number of training iterations that ended in the window."""
        return int(self._iteration()[0])

    @property
    def iteration_seconds(self) -> float:
        """Mean seconds from the end of one iteration to the end of the next, without tests and
        checkpoints; 0 before the first."""
        count, seconds, _ = self._iteration()
        return seconds / count if count else 0.0

    def work(self) -> dict[str, Labels]:
        """Actor -> label -> count, seconds and sum of squares of the work of training in the
        window."""
        found = {name: actor.window() for name, actor in self._actors.items()}
        training = {
            name: {
                label: sums for label, sums in labels.items() if not label.startswith(NOT_TRAINING)
            }
            for name, labels in found.items()
        }
        return {name: labels for name, labels in training.items() if labels}

    def use(self) -> dict[str, float]:
        """Actor -> the share of the time of training for which it computed; empty before the first
        iteration.

        The share is exact to about one iteration in the window.
        """
        lead = self._actors.get(self._lead)
        if lead is None or lead.at <= lead.since:
            return {}
        # the share of training in the time; the rest are tests and checkpoints
        share = self._iteration()[1] / (lead.at - lead.since)
        walls = {name: share * (actor.at - actor.since) for name, actor in self._actors.items()}
        busy = {
            name: sum(sums[1] for sums in labels.values()) for name, labels in self.work().items()
        }
        return {
            name: min(1.0, seconds / walls[name])
            for name, seconds in busy.items()
            if walls[name] > 0
        }

    def processors(self) -> float:
        """The mean number of processors that all processes kept busy; 0 if no process reports
        it."""
        told = [
            (actor.window().get(PROCESSOR, NONE)[1], actor.at - actor.since)
            for actor in self._actors.values()
        ]
        return sum(seconds / wall for seconds, wall in told if wall > 0)

    def _hear(self, name: str, told: Labels, now: float) -> None:
        actor = self._actors.get(name)
        if actor is None or any(
            told[label][0] < actor.sums[label][0] for label in told.keys() & actor.sums.keys()
        ):
            # a new actor, or its process was restarted
            actor = self._actors[name] = _Actor(now, dict(told))
            actor.begin()
        actor.at = now
        actor.sums |= told
        if actor.is_late:
            actor.is_late = False
            actor.begin()

    def _is_enough(self, lead: _Actor) -> bool:
        """True if the next window is long enough to become the window."""
        done = lead.sums.get(ITERATION, NONE)[0] - lead.next_start.get(ITERATION, NONE)[0]
        return lead.at - lead.next_since >= SECONDS and done >= ITERATIONS

    def _iteration(self) -> tuple[float, ...]:
        return (
            self._actors[self._lead].window().get(ITERATION, NONE)
            if self._lead in self._actors
            else NONE
        )
