"""Transfers that share ways: the part of an interface's rate that each transfer gets, and the time
at which the next transfer has left.

Transfers of one lane leave one after the other. Transfers under way at once share each way as TCP
connections do (max-min): a transfer gets more than another only if the other is held back
elsewhere. Source: max-min fairness by progressive filling, Bertsekas and Gallager, Data Networks,
section 6.5.2. Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

# a share of a transfer's time: transfers that would end within it after the first end with it
TOGETHER = 1e-9


@dataclass(eq=False, slots=True)
class Transfer:
    """A transfer of `size` bytes, in a number of copies on each way of `ways`.

    `who` identifies it to the caller at its end. At time `since`, `left` bytes of a copy were still
    to go, at this `rate`.
    """

    who: Any
    size: float
    ways: Mapping[str, int]
    lane: Hashable
    left: float = 0.0
    since: float = 0.0
    rate: float = 0.0
    end: float = math.inf
    knot: _Knot | None = None


@dataclass(eq=False, slots=True)
class _Knot:
    """Transfers that share ways, directly or through others. Whenever one begins or ends, the rates
    of all may change."""

    transfers: list[Transfer]
    is_old: bool = False


class Sharing:
    """The ways with their rates, in bytes per second, and the transfers on them. `carried`: the
    bytes that each way has carried."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        self._rates = dict(rates)
        self.carried: defaultdict[str, float] = defaultdict(float)
        self._lanes: defaultdict[Hashable, deque[Transfer]] = defaultdict(deque)
        self._users: dict[str, dict[Transfer, None]] = {way: {} for way in rates}
        self._copies = dict.fromkeys(rates, 0)
        self._changed: dict[str, None] = {}  # ways whose rates must be shared again
        self._now = 0.0
        # a heap of the first end in each knot; it also holds old knots
        self._ends: list[tuple[float, int, _Knot]] = []
        self._numbers = count()

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._lanes.values()))} transfers over {len(self._rates)} ways>"

    def start(self, transfer: Transfer, now: float) -> None:
        """Start a transfer, after the earlier transfers of its lane."""
        lane = self._lanes[transfer.lane]
        lane.append(transfer)
        if len(lane) == 1:
            self._begin(transfer, now)

    def next_end(self) -> float:
        """Return when the next transfer will have left if none begins before. Infinity: none is
        under way."""
        if self._changed:
            self._share()
        while self._ends and self._ends[0][2].is_old:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else math.inf

    def ended(self, now: float) -> list[Transfer]:
        """Return the transfers that have left at `now`, the time that `next_end` returned, and
        start the next transfers of their lanes."""
        due: list[Transfer] = []
        while self._ends and self._ends[0][0] <= now:
            _, _, knot = heapq.heappop(self._ends)
            if not knot.is_old:
                due += [
                    one for one in knot.transfers if one.end <= now + TOGETHER * (now - one.since)
                ]
        for transfer in due:
            for way, copies in transfer.ways.items():
                self.carried[way] += copies * transfer.size
                del self._users[way][transfer]
                self._copies[way] -= copies
                self._changed[way] = None
            lane = self._lanes[transfer.lane]
            lane.popleft()
            if lane:
                self._begin(lane[0], now)
        self._now = now
        return due

    def _begin(self, transfer: Transfer, now: float) -> None:
        transfer.left = transfer.size
        transfer.since = now
        self._now = now
        for way, copies in transfer.ways.items():
            self._users[way][transfer] = None
            self._copies[way] += copies
            self._changed[way] = None

    def _share(self) -> None:
        """Share the rates of the ways that have changed, and of all ways connected with them."""
        seen: dict[str, None] = {}
        for way in self._changed:
            if way not in seen and self._users[way]:
                ways, transfers = self._reached(way)
                seen |= ways
                self._share_out(ways, transfers)
        self._changed.clear()

    def _reached(self, way: str) -> tuple[dict[str, None], dict[Transfer, None]]:
        """Return the ways that are connected with `way` through transfers, and the transfers on
        them."""
        ways = {way: None}
        waiting = [way]
        transfers: dict[Transfer, None] = {}
        while waiting:
            for transfer in self._users[waiting.pop()]:
                if transfer not in transfers:
                    transfers[transfer] = None
                    for other in transfer.ways:
                        if other not in ways:
                            ways[other] = None
                            waiting.append(other)
        return ways, transfers

    def _share_out(self, ways: Iterable[str], transfers: Iterable[Transfer]) -> None:
        knot = _Knot(list(transfers))
        now = self._now
        before = [transfer.rate for transfer in knot.transfers]
        if len(before) == 1:
            (alone,) = knot.transfers
            alone.rate = min([self._rates[way] / copies for way, copies in alone.ways.items()])
        else:
            self._fill(ways, knot.transfers)
        first = math.inf
        for transfer, rate in zip(knot.transfers, before, strict=True):
            if transfer.knot is not None:
                transfer.knot.is_old = True
            transfer.knot = knot
            if transfer.rate != rate:
                left = transfer.left - rate * (now - transfer.since)
                transfer.left = max(0.0, left)
                transfer.since = now
                transfer.end = now + transfer.left / transfer.rate
            if transfer.end < first:
                first = transfer.end
        heapq.heappush(self._ends, (first, next(self._numbers), knot))

    def _fill(self, ways: Iterable[str], transfers: Sequence[Transfer]) -> None:
        """Set rates by progressive filling: first share out the way that can give least to a copy,
        then the next, and so on.

        The share that a remaining way can give only grows meanwhile, so an entry of the heap is at
        most too small.
        """
        without = len(transfers)
        for transfer in transfers:
            transfer.rate = 0.0
        left = {way: self._rates[way] for way in ways}
        copies = {way: self._copies[way] for way in left}
        least = [(left[way] / number, way) for way, number in copies.items() if number]
        heapq.heapify(least)
        while without:
            known, way = heapq.heappop(least)
            if not copies[way]:
                continue
            # by rounding, `left` may become negative
            share = max(left[way], TOGETHER * self._rates[way]) / copies[way]
            if share > known * (1.0 + TOGETHER):
                heapq.heappush(least, (share, way))
                continue
            for transfer in self._users[way]:
                if not transfer.rate:
                    transfer.rate = share
                    without -= 1
                    for other, number in transfer.ways.items():
                        left[other] -= share * number
                        copies[other] -= number
