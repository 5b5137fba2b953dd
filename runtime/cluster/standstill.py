"""Progress as a liveness of its own: every process lives, and yet nothing advances. Plain decisions
on heartbeats.

circle      actors whose handlers wait for one another's answers will wait for ever: named at once
standstill  the lead counts no step (`Actor.stepped`) for long, and nobody computes: named with who
            waits for whom

A lead that never counts a step may be idle as long as it likes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from runtime.cluster.lifecycle import Heartbeat

REMEMBERED = 64  # durations of steps, to know the usual one
PATIENCE = 20  # usual steps without a new one
MOST_NAMED = 12
# seconds that one beat counts: whoever was stopped as a whole has not waited meanwhile
LONGEST_BEAT = 2.0


@dataclass
class _Wait:
    """An actor's handler waits for the answer of `peer`: the same ask from its first beat to its
    last."""

    peer: str
    number: int
    first: float
    last: float


class Standstill:
    """Hears every heartbeat. `lead` counts the steps; `floor`: seconds without one that are never
    too long."""

    def __init__(self, lead: str, floor: float) -> None:
        self._lead = lead
        self._floor = floor
        self._steps = 0
        self._idle = 0.0  # seconds without a step in which nobody computed
        self._since_step = 0.0
        self._durations: deque[float] = deque(maxlen=REMEMBERED)
        self._computing: dict[str, bool] = {}  # process -> did it at its last beat?
        self._actors: dict[str, Mapping[str, Any]] = {}
        self._waits: dict[str, _Wait] = {}

    def __repr__(self) -> str:
        return f"<standstill: {self._steps} steps, none for {self._idle:.1f} s>"

    def beat(self, heartbeat: Heartbeat, now: float) -> str | None:
        """Take a heartbeat; why nothing will ever advance, or nothing has for too long, if it is
        so."""
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
            if self._steps:  # what came before the first took as long as it took to begin
                self._durations.append(self._since_step / (steps - self._steps))
            self._steps = steps
            self._idle = 0.0
            self._since_step = 0.0

    def _stall(self) -> str | None:
        if not self._steps or self._idle <= self._limit:
            return None
        usual = f", which usually takes {median(self._durations):.2g} s" if self._durations else ""
        told = f"{self._lead} has ended no step for {self._idle:.0f} s{usual}, and nobody computes"
        return f"the run stands still: {told}: {self._who()}"

    def _who(self) -> str:
        """Who waits for whom, and who is at what."""
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
        return "; ".join(said[:MOST_NAMED]) + more or "nobody waits for anybody"

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
        """A circle of asks that stood all together for a beat: what is merely on its way would have
        arrived."""
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
                "answer and will for ever"
            )
        return None
