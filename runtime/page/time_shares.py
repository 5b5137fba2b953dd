"""The time of an iteration, divided into work and waiting for each actor, from the totals that
processes reported."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from runtime.compute.work_sums import PROCESSOR
from runtime.page.run_history import RunHistory

BESIDE = re.compile(
    r"\btest\b|^(build|iteration|processor|sweep)\b", re.IGNORECASE
)  # labels of work that is not training
SLOW = 1.2  # times the median of its role: from there on an actor is a straggler
LEAST = 1e-9

Sums = Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """A kind of array work of one actor: the number of pieces, the mean and the standard deviation
    of their seconds."""

    actor: str
    label: str
    pieces: int
    mean: float
    deviation: float


@dataclass
class Share:
    """The time of one actor in an iteration, or in a second of a run without iterations.
    `parts` maps ("works", kind of work) or ("waits", peer) to seconds."""

    actor: str
    role: str
    parts: dict[tuple[str, str], float] = field(default_factory=dict)
    whole: float = 0.0

    @property
    def works(self) -> float:
        """Seconds of array work."""
        return sum(seconds for (kind, _), seconds in self.parts.items() if kind == "works")

    @property
    def waits(self) -> float:
        """Seconds of waiting for answers."""
        return sum(seconds for (kind, _), seconds in self.parts.items() if kind == "waits")

    @property
    def rest(self) -> float:
        """The remaining seconds: messages, the interpreter, or nothing to do."""
        return max(0.0, self.whole - self.works - self.waits)


@dataclass(frozen=True)
class Times:
    """The shares of time in one run. `per` is the period that they cover: "iteration" or "second of
    the run"."""

    shares: list[Share]
    work: list[Work]
    stragglers: list[str]
    per: str
    received: dict[tuple[str, str], float]  # (sender, receiver) -> total bytes
    iterations: float  # in which they arrived


def times_of(story: RunHistory) -> Times | None:
    """The shares of time of a run. None if no process has reported any."""
    shares = list[Share]()
    work = list[Work]()
    received = dict[tuple[str, str], float]()
    most = 0.0
    counted = False
    for first, last in zip(story.usage[::2], story.usage[1::2], strict=True):
        span = _span(first, last)
        before = first["actors"] if first is not last and span >= last["t"] / 2 else {}
        begun = first["t"] if before else 0.0
        done = story.iterations_at(last["t"]) - story.iterations_at(begun)
        most = max(most, story.iterations_at(last["t"]) - story.begun)
        counted = counted or done >= 1
        for name, sums in last["actors"].items():
            if "/" in name:  # the agent of a process
                continue
            earlier = before.get(name, {})
            shares.append(_share(name, sums, earlier, (last["t"] - begun, done)))
            work += _work(name, sums)
            for peer, size in sums.get("received_bytes", {}).items():
                received[peer, name] = received.get((peer, name), 0.0) + size
    if not shares:
        return None
    shares.sort(key=lambda share: (share.role, share.actor))
    per = "iteration" if counted else "second of the run"
    return Times(shares, work, list(_stragglers(shares)), per, received, most)


def _span(first: Sums, last: Sums) -> float:
    return float(last["t"] - first["t"])


def _share(name: str, sums: Sums, earlier: Sums, over: tuple[float, float]) -> Share:
    """The share of one actor. `over` is a number of seconds, and the iterations in them."""
    seconds, done = over
    by = done if done >= 1 else max(seconds, LEAST)
    parts: defaultdict[tuple[str, str], float] = defaultdict(float)
    for label, (_, total, _) in sums["work"].items():
        before = earlier.get("work", {}).get(label, (0, 0.0, 0.0))[1]
        if not BESIDE.search(label):
            parts["works", label.partition(" ")[0]] += max(0.0, total - before) / by
    for peer, total in sums["waited_seconds"].items():
        parts["waits", peer] += (
            max(0.0, total - earlier.get("waited_seconds", {}).get(peer, 0.0)) / by
        )
    return Share(name, sums["role"], dict(parts), seconds / by)


def _work(name: str, sums: Sums) -> Iterator[Work]:
    for label, (pieces, total, squares) in sums["work"].items():
        if pieces and label != PROCESSOR:
            mean = total / pieces
            yield Work(name, label, pieces, mean, max(0.0, squares / pieces - mean * mean) ** 0.5)


def _stragglers(shares: list[Share]) -> Iterator[str]:
    """A sentence about each actor that works clearly longer than others of its role."""
    roles: defaultdict[str, list[Share]] = defaultdict(list)
    for share in shares:
        roles[share.role].append(share)
    for role, alike in roles.items():
        usual = median(share.works for share in alike)
        for share in alike:
            if len(alike) > 1 and usual > LEAST and share.works > SLOW * usual:
                times = share.works / usual
                yield (
                    f"{share.actor} works {times:.2f} times as long as the median of the "
                    f"{len(alike)} of role {role}"
                )
