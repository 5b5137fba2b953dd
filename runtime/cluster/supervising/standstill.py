"""Detecting that a run stands still although every process lives. These are plain decisions on
heartbeats.

circle      the handlers of some actors wait for each other's answers, so they would wait for ever:
            reported at once
standstill  the lead counts no step (`Actor.stepped`) for long, and no process computes: reported
            with the actors that wait and the peers they wait for

A lead that never counts a step may be idle without limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from runtime.cluster.lifecycle import Heartbeat
from runtime.plan.topology import ProcessSpec

REMEMBERED = 64  # durations of steps, for their median
PATIENCE = 20  # the longest time without a new step, in usual durations of a step
MOST_NAMED = 12
# the most seconds that one beat counts: a run that was stopped as a whole has not waited meanwhile
LONGEST_BEAT = 2.0


@dataclass
class _Wait:
    """An actor's handler waits for the answer of `peer`. `first` and `last` are the times of the
    first and last beat with this same ask."""

    peer: str
    number: int
    first: float
    last: float


class Standstill:
    """Takes every heartbeat. `lead` is the actor that counts the steps. `floor` is the number of
    seconds without a step that is never too long."""

    def __init__(self, lead: str, floor: float) -> None:
        self._lead = lead
        self._floor = floor
        self._steps = 0
        self._idle = 0.0  # seconds without a step in which no process computed
        self._since_step = 0.0
        self._durations: deque[float] = deque(maxlen=REMEMBERED)
        self._computing: dict[str, bool] = {}  # process -> whether it computed at its last beat
        self._actors: dict[str, Mapping[str, Any]] = {}
        self._waits: dict[str, _Wait] = {}

    def __repr__(self) -> str:
        return f"<standstill: {self._steps} steps, none for {self._idle:.1f} s>"

    def forget(self, spec: ProcessSpec) -> None:
        """Forget a process that has ended in order."""
        self._computing.pop(spec.name, None)
        for actor in spec.actors:
            self._actors.pop(actor, None)
            self._waits.pop(actor, None)

    def beat(self, heartbeat: Heartbeat, now: float) -> str | None:
        """Take a heartbeat. Returns the reason if the run can never advance, or has not advanced
        for too long."""
        self._computing[heartbeat.process] = heartbeat.busy_seconds > 0
        for actor, status in heartbeat.actors.items():
            self._actors[actor] = status
            self._note_wait(actor, status, now)
        if self._lead in heartbeat.actors:
            self._count(
                int(heartbeat.actors[self._lead].get("steps", 0)),
                min(heartbeat.period, LONGEST_BEAT),
            )
        return self._circle(heartbeat.period) or self._stall()

    @property
    def _limit(self) -> float:
        usual = median(self._durations) if self._durations else 0.0
        return max(self._floor, PATIENCE * usual)

    def _count(self, steps: int, period: float) -> None:
        self._since_step += period
        self._idle = 0.0 if any(self._computing.values()) else self._idle + period
        if steps > self._steps:
            if self._steps:  # the time before the first step includes the start of the run
                self._durations.append(self._since_step / (steps - self._steps))
            self._steps = steps
            self._idle = 0.0
            self._since_step = 0.0

    def _stall(self) -> str | None:
        if not self._steps or self._idle <= self._limit:
            return None
        usual = f", which usually takes {median(self._durations):.2g} s" if self._durations else ""
        told = (
            f"{self._lead} has ended no step for {self._idle:.0f} s{usual}, and no process computes"
        )
        return f"the run stands still: {told}: {self._who()}"

    def _who(self) -> str:
        """Describe which actor waits for which peer, and in which handler each actor is."""
        said = []
        for actor, status in sorted(self._actors.items()):
            peer = status["waiting_for"]
            doing = status["doing"]
            at = f" in {doing}" if doing != "idle" else ""
            if peer:
                said.append(f"{actor} waits for {peer}{at}")
            elif at:
                said.append(f"{actor} is{at}")
        more = f" and {len(said) - MOST_NAMED} more" if len(said) > MOST_NAMED else ""
        return "; ".join(said[:MOST_NAMED]) + more or "no actor waits for another"

    def _note_wait(self, actor: str, status: Mapping[str, Any], now: float) -> None:
        peer, number = status.get("blocked_by", ("", 0))
        known = self._waits.get(actor)
        if not peer:
            self._waits.pop(actor, None)
        elif known is not None and (known.peer, known.number) == (peer, number):
            known.last = now
        else:
            self._waits[actor] = _Wait(peer, number, now, now)

    def _circle(self, period: float) -> str | None:
        """Describe a circle of asks that all stayed open for the length of a beat. Answers that
        were only in transit would have arrived by then."""
        for start in self._waits:
            way = [start]
            while (after := self._waits[way[-1]].peer) in self._waits and after not in way:
                way.append(after)
            if after != start:
                continue
            waits = [self._waits[actor] for actor in way]
            if min(wait.last for wait in waits) - max(wait.first for wait in waits) < 0.9 * period:
                continue
            said = [
                (f"{actor} (in {self._actors[actor]['doing']}) asked {self._waits[actor].peer}")
                for actor in way
            ]
            return (
                f"the run stands still: {' and '.join(said)}: each waits for the other's "
                "answer, without end"
            )
        return None
