"""Service times of a run that goes on, from the sums that its processes tell of their work. Plain
arithmetic.

What comes before the coordinator tells of iterations for the second time is left out: first pieces
are slow, and by then everybody has told of some. Then a window slides in two steps: it reaches back
over SECONDS and ITERATIONS at least, and over twice as much at most (or as far as there is
anything).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roles.learning.scoreboard import ITERATION
from runtime.compute.work_sums import PROCESSOR, Sums

SECONDS = 10.0
ITERATIONS = 20
# seconds: who tells nothing for longer had nothing to tell, as the coordinator during a test
SILENT = 1.5
# how the labels begin of what is no work of training
NOT_TRAINING = (ITERATION, PROCESSOR, "test", "fc TEST")
Labels = dict[str, tuple[float, ...]]  # label -> count, seconds, sum of squares
NONE = (0.0, 0.0, 0.0)


@dataclass
class _Actor:
    """When an actor last told of its work, and its sums then; the same for where the window begins,
    and the next."""

    at: float
    sums: Labels = field(default_factory=dict)
    since: float = 0.0
    start: Labels = field(default_factory=dict)
    next_since: float = 0.0
    next_start: Labels = field(default_factory=dict)
    is_late: bool = False  # what it tells next may be of before the window, which then begins there

    def begin(self) -> None:
        """The window, and the next, begin now."""
        self.since = self.next_since = self.at
        self.start = dict(self.sums)
        self.next_start = dict(self.sums)

    def slide(self) -> None:
        """The window begins where the next one did, and that begins now."""
        self.since = self.next_since
        self.start = self.next_start
        self.next_since = self.at
        self.next_start = dict(self.sums)

    def window(self) -> Labels:
        """Sums over the window."""
        pairs = {
            label: zip(sums, self.start.get(label, NONE), strict=True)
            for label, sums in self.sums.items()
        }
        found = {label: tuple(now - then for now, then in pair) for label, pair in pairs.items()}
        return {label: sums for label, sums in found.items() if sums[0]}


class LiveTimes:
    """Of the actors of one run; `lead` is the coordinator."""

    def __init__(self, lead: str) -> None:
        self._lead = lead
        self._actors: dict[str, _Actor] = {}
        self._told = 0  # how often the lead has told of iterations, as far as it matters

    def __repr__(self) -> str:
        return f"<live times of {len(self._actors)} actors, {self.iterations:g} iterations>"

    def hear(self, sums: Sums, now: float) -> None:
        """The sums of some actors; `now` is loop time in seconds."""
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
        """The run is another from now on: what was heard counts no more."""
        for actor in self._actors.values():
            actor.begin()

    def begin_with_the_next(self) -> None:
        """The run is another from now on. Who tells of its work once a second will tell of some of
        before: the window of each begins with what it tells next."""
        self.begin_anew()
        for actor in self._actors.values():
            actor.is_late = True

    @property
    def iterations(self) -> int:
        """How many training iterations have ended in the window."""
        return int(self._iteration()[0])

    @property
    def iteration_seconds(self) -> float:
        """Mean seconds from the end of one to that of the next, without tests and checkpoints; 0
        before the first."""
        count, seconds, _ = self._iteration()
        return seconds / count if count else 0.0

    def work(self) -> dict[str, Labels]:
        """Actor -> label -> count, seconds, sum of squares of the work of training in the
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
        """Actor -> the share of the time of training for which it computed, known to about an
        iteration in the window; empty before the first."""
        lead = self._actors.get(self._lead)
        if lead is None or lead.at <= lead.since:
            return {}
        # of the time; the rest are tests and checkpoints
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
        """How many processors all processes have kept busy on average; 0 where nobody tells."""
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
            # new, or its process was born anew
            actor = self._actors[name] = _Actor(now, dict(told))
            actor.begin()
        actor.at = now
        actor.sums |= told
        if actor.is_late:
            actor.is_late = False
            actor.begin()

    def _is_enough(self, lead: _Actor) -> bool:
        """Is the next window long enough to be the window?"""
        done = lead.sums.get(ITERATION, NONE)[0] - lead.next_start.get(ITERATION, NONE)[0]
        return lead.at - lead.next_since >= SECONDS and done >= ITERATIONS

    def _iteration(self) -> tuple[float, ...]:
        return (
            self._actors[self._lead].window().get(ITERATION, NONE)
            if self._lead in self._actors
            else NONE
        )
