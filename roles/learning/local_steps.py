"""The number of iterations that islands train between two exchanges with the outer server.

Islands that take different numbers of steps need the same time between two exchanges: steps follow
speed. With equal steps the gains of slow islands are several periods old, and accuracy falls.
Decisions only, no messages are sent and no clock is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEAST = 16  # steps of the fastest island
PERIODS = 200  # in a run, unless exchanges take longer: the outer momentum needs some hundred
LEAST_SECONDS = 1e-12  # of a step
NEWEST = 0.2  # the weight of the newest measurement in a running mean


@dataclass(frozen=True)
class LocalSteps:
    """The keys of a preset for local steps.

    `period`: the steps of the fastest island; 0: LEAST, or fewer for PERIODS periods in the run,
    but as many as fit into the time of an exchange. `speeds`: the speeds of the islands by rank, in
    any unit; empty: measured. `equal`: every island takes the steps of the fastest. `together`: the
    islands are one group, which shares out the iterations of each ticket by the given speeds.
    """

    period: int = 0
    speeds: tuple[float, ...] = ()
    equal: bool = False
    together: bool = False


def shared_out(count: int, speeds: Sequence[float]) -> tuple[int, ...]:
    """Cuts of `count` iterations into neighbouring parts in proportion to these speeds, rounded:
    rank r has the iterations from cuts[r] up to cuts[r + 1]."""
    whole = sum(speeds)
    cuts = [0]
    passed = 0.0
    for speed in speeds:
        passed += speed
        cuts.append(round(count * passed / whole))
    return tuple(cuts)


class StepsBySpeed:
    """The local steps of the islands of one run, which has `iterations` iterations. Times are in
    seconds."""

    def __init__(self, said: LocalSteps, islands: Sequence[str], iterations: int) -> None:
        self._said = said
        self._islands = tuple(islands)
        self._iterations = iterations
        self._away: set[str] = set()
        self._seconds: dict[str, float] = {}  # island -> a running mean of a step's seconds
        self._ways: dict[str, float] = {}  # island -> a running mean of the seconds to the server
        # island -> its last reported step, until it is merged, and the time of the report
        self._last: dict[str, tuple[int, float]] = {}

    def __repr__(self) -> str:
        return f"<steps {', '.join(f'{name} {self.of(name)}' for name in self._islands)}>"

    def stepped(self, island: str, number: int, seconds: float, now: float) -> None:
        """Note an island's step, which was iteration `number`. Islands that go together are not
        measured, so that a run repeats itself. Seconds of which no speed follows, such as 0, do not
        count."""
        if self._said.together:
            return
        if LEAST_SECONDS <= seconds < math.inf:
            _note(self._seconds, island, seconds)
        self._last[island] = number, now

    def merged(self, number: int, now: float) -> None:
        """Note that iteration `number` is in the outer model."""
        for island, (last, reported) in list(self._last.items()):
            if last == number:
                del self._last[island]
                _note(self._ways, island, now - reported)

    def forget(self, island: str) -> None:
        """Note that an island has left. The others take their steps without regard to its speed."""
        self._away.add(island)
        for known in (self._seconds, self._ways, self._last):
            known.pop(island, None)

    def joined(self, island: str) -> None:
        """Note that an island is back. Its speed is measured anew."""
        self._away.discard(island)

    def of(self, island: str) -> int:
        """The steps of an island until its next exchange; 1 as long as its speed is unknown."""
        relative = self._relative
        if self._said.together:
            return sum(max(1, round(self.period * speed)) for speed in relative.values())
        if island not in relative:
            return 1
        return max(1, round(self.period * relative[island]))

    @property
    def period(self) -> int:
        """The steps of the fastest island in a period."""
        if self._said.period:
            return self._said.period
        fastest = min(self._seconds.values(), default=0.0)
        exchange = 2 * max(self._ways.values(), default=0.0)
        during = -(-exchange // fastest) if self._seconds else 0
        of_all = sum(self._relative.values()) or len(self._islands)
        return int(max(1, during, min(LEAST, self._iterations / (PERIODS * of_all))))

    @property
    def _relative(self) -> Mapping[str, float]:
        """Island -> its speed, as a part of the speed of the fastest. Only the known ones."""
        said = self._said
        if said.equal or (said.together and not said.speeds):
            return dict.fromkeys(self._islands, 1.0)
        if said.speeds:
            given = zip(self._islands, said.speeds, strict=True)
            speeds = {name: speed for name, speed in given if name not in self._away}
        else:
            speeds = {name: 1.0 / seconds for name, seconds in self._seconds.items()}
        fastest = max(speeds.values(), default=1.0)
        return {name: speed / fastest for name, speed in speeds.items()}


def _note(means: dict[str, float], name: str, seconds: float) -> None:
    """Let a measurement into a running mean, which begins with the first."""
    before = means.get(name, seconds)
    means[name] = before + NEWEST * (seconds - before)
