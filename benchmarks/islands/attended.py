"""What is counted where islands come and go: the samples in the outer model, and how long the other
islands wait. Seconds are of one clock, virtual or real."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

AFTER = 1.0  # seconds after an event in which waits of the others count
PATIENCE = 60.0  # seconds without a gain after which a run hangs


class Ledger:
    """The iterations in the outer model, in the order in which they were merged. Each has `batch`
    samples."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._merged: list[tuple[int, Sequence[int]]] = []  # the model's version, first samples
        self.times: list[float] = []  # of outer steps with new gains
        self.lost: list[int] = []  # iterations that a later life of the server did not have

    def __repr__(self) -> str:
        return f"<{len(self._merged)} outer steps, {len(self.lost)} lives of the server>"

    def merged(self, version: int, firsts: Sequence[int], at: float) -> None:
        """Note that the model of this version has the iterations with these first samples."""
        if firsts:
            self._merged.append((version, firsts))
            self.times.append(at)

    def goes_on_at(self, version: int) -> None:
        """Note that a new life of the server goes on from the model of this version."""
        kept = [step for step in self._merged if step[0] <= version]
        self.lost.append(sum(len(firsts) for _, firsts in self._merged[len(kept) :]))
        self._merged = kept

    def samples(self) -> Counter[int]:
        """How often each sample is in the model."""
        found: Counter[int] = Counter()
        for _, firsts in self._merged:
            for first in firsts:
                found.update(range(first, first + self._batch))
        return found

    def is_exact(self, iterations: int) -> bool:
        """Whether each sample of so many iterations is once in the model, and no other."""
        return self.samples() == Counter(range(iterations * self._batch))

    def next_after(self, at: float) -> float:
        """Seconds from this time to the next outer step; PATIENCE if none came."""
        return min((t for t in self.times if t > at), default=at + PATIENCE) - at


@dataclass
class Presence:
    """Which islands were there. `seconds(island)`: of one iteration. `events`: the time of each
    event, and the process. `iterated`: the times at which each island began an iteration. `absent`:
    the times at which islands were away or stood still."""

    seconds: Callable[[str], float]
    events: list[tuple[float, str]] = field(default_factory=list)
    iterated: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    absent: list[tuple[str, float, float]] = field(default_factory=list)

    def pauses(self) -> list[float]:
        """For each event and each other island that was there, its longest wait between two
        iterations."""
        each = (
            list(self._waits(other, at, at + AFTER))
            for at, name in self.events
            for other in self.iterated.keys() - {name}
        )
        return [max(waits) for waits in each if waits]

    def _waits(self, island: str, low: float, high: float) -> Iterator[float]:
        """The waits of an island that was there, in these seconds."""
        for earlier, later in pairwise(self.iterated[island]):
            if later < low or earlier > high:
                continue
            if not any(who == island and a < later and b > earlier for who, a, b in self.absent):
                yield max(0.0, later - earlier - self.seconds(island))
