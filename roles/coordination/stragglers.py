"""The detection of stragglers: workers that are slower than their peers for longer than chance
explains. Decisions only, no I/O.

A worker's pass is slow if it took SLOW times as long as the median of all workers' last passes,
both as a whole and per row. A worker becomes a straggler once MANY of its last WINDOW passes were
slow, and its median is slow compared with its peers' medians. It stops being one once at most FEW
of them were slow.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median, median_low
from typing import Any

SLOW = 1.5
# Passes that vary by chance (lognormal, sigma 0.3, which is much) are slow once in 11; 11 of 15
# then come once in 3e9. Of the passes of a worker that takes twice as long and varies as much, 5 of
# 6 are slow; it is named after 15 passes, nearly always by 20.
WINDOW = 15
MANY = 11
FEW = 4
# rounds without a pass after which a worker no longer takes part: the groups have changed
AWAY = 100
# before the same worker is reported again: a worker that swings is not news every second
AGAIN_SECONDS = 60.0


@dataclass(frozen=True)
class Straggler:
    """A worker that has become slow, or has caught up: its median seconds of a pass, and those of
    its peers."""

    worker: str
    slow: bool
    seconds: float
    peers: float

    @property
    def event(self) -> tuple[str, dict[str, Any]]:
        """The event to report: how many `times` as long as its peers the worker takes, and
        `seconds` of a pass of both."""
        times = {
            "times": self.seconds / self.peers,
            "seconds": self.seconds,
            "peers_seconds": self.peers,
        }
        return ("straggler" if self.slow else "caught up"), {"worker": self.worker, **times}


@dataclass
class _Member:
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    slow: deque[bool] = field(default_factory=lambda: deque(maxlen=WINDOW))
    last: tuple[float, float] = (0.0, 0.0)  # seconds of the last pass, and of each of its rows
    named: bool = False
    told: float | None = None
    round: int = 0


class Stragglers:
    """The workers of one run. Times are loop time in seconds."""

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}
        self._left: dict[str, _Member] = {}  # stragglers that may come back as they were reported
        self._peers = (0.0, 0.0)  # medians of the last passes, computed once a round
        self._round = self._since = 0  # rounds so far; passes in the present round

    def __repr__(self) -> str:
        return f"<{len(self._members)} workers, slow: {', '.join(self.stragglers) or 'none'}>"

    @property
    def stragglers(self) -> list[str]:
        """The workers that are slow now."""
        return [name for name, member in self._members.items() if member.named]

    def seen(self, worker: str, rows: int, seconds: float, now: float) -> Straggler | None:
        """Note a pass of a worker over so many rows in so many seconds. Returns the change to
        report, or None."""
        if rows <= 0 or not seconds > 0:
            return None
        if worker not in self._members:
            self._members[worker] = self._left.pop(worker) if worker in self._left else _Member()
        member = self._members[worker]
        member.last = seconds, seconds / rows
        member.seconds.append(seconds)
        member.round = self._round
        self._since += 1
        if self._since >= len(self._members):
            self._compare()
        if not self._peers[0] or len(self._members) < 2:
            return None
        member.slow.append(
            all(mine > SLOW * theirs for mine, theirs in zip(member.last, self._peers, strict=True))
        )
        return self._judged(worker, member, now)

    def _compare(self) -> None:
        """End a round, in which as many passes ended as there are workers."""
        self._round = self._round + 1
        self._since = 0
        away = [name for name, member in self._members.items() if self._round - member.round > AWAY]
        for name in away:
            member = self._members.pop(name)
            if member.named:
                self._left[name] = member
        lasts = [member.last for member in self._members.values()]
        self._peers = (
            median_low([last[0] for last in lasts]),
            median_low([last[1] for last in lasts]),
        )

    def _judged(self, worker: str, member: _Member, now: float) -> Straggler | None:
        slow = member.slow.count(True)
        changes = slow <= FEW if member.named else slow >= MANY
        if not changes or (
            member.told is not None and not member.named and now - member.told < AGAIN_SECONDS
        ):
            return None
        mine = median(member.seconds)
        peers = median_low([median(one.seconds) for one in self._members.values()])
        # only a peer's last pass was quick, and the peer has made no other since
        if not member.named and mine <= SLOW * peers:
            return None
        member.named = not member.named
        member.told = now
        return Straggler(worker, member.named, mine, peers)
