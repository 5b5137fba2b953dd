"""Which workers are slower than their peers, for longer than chance makes them. Plain decisions.

A worker's pass is slow if it took SLOW times as long as the median of all workers' last passes, the
whole and each of its rows. It is a straggler once MANY of its last WINDOW passes were slow, and
their median beside that of its peers; it is none any more once FEW are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median, median_low
from typing import Any

SLOW = 1.5
# Passes that vary by chance (lognormal, sigma 0.3, which is much) are slow once in 11; 11 of 15
# then come once in 3e9. Of a worker that takes twice as long and varies as much 5 of 6 are; it is
# named after 15 passes, nearly always by 20.
WINDOW = 15
MANY = 11
FEW = 4
# rounds without a pass, after which a worker takes part no more: the groups have changed
AWAY = 100
# before the same worker is told of anew: one that swings is no news each second
AGAIN_SECONDS = 60.0


@dataclass(frozen=True)
class Straggler:
    """A worker that is slow, beside the median of its peers; or is so no more."""

    worker: str
    slow: bool
    seconds: float
    peers: float

    @property
    def event(self) -> tuple[str, dict[str, Any]]:
        """What is told: how many `times` as long as its peers it takes, and `seconds` of a pass of
        both."""
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
        self._peers = (0.0, 0.0)  # medians of the last passes, made anew once a round
        self._round = self._since = 0  # how often they were made; reports since then

    def __repr__(self) -> str:
        return f"<{len(self._members)} workers, slow: {', '.join(self.stragglers) or 'none'}>"

    @property
    def stragglers(self) -> list[str]:
        """Those that are slow now."""
        return [name for name, member in self._members.items() if member.named]

    def seen(self, worker: str, rows: int, seconds: float, now: float) -> Straggler | None:
        """A worker computed a pass over so many rows in so many seconds. What is to be told, if
        anything is."""
        if rows <= 0 or not seconds > 0:
            return None
        member = self._members.setdefault(worker, _Member())
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
        """A round is over, in which as many passes ended as there are workers."""
        self._round = self._round + 1
        self._since = 0
        away = [name for name, member in self._members.items() if self._round - member.round > AWAY]
        for name in away:
            del self._members[name]
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
        # a peer's last pass was quick, and it made no other since
        if not member.named and mine <= SLOW * peers:
            return None
        member.named = not member.named
        member.told = now
        return Straggler(worker, member.named, mine, peers)
