"""Transfers that share ways: what each of several gets of an interface's rate, and when the next has left.

Transfers of one lane leave one after the other. Those that are under way at once share each way as TCP connections do:
nobody gets more until all with less are held back elsewhere. Source: max-min fairness by progressive filling, Bertsekas
and Gallager, Data Networks, section 6.5.2. Times are seconds, sizes bytes.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

TOGETHER = 1e-9  # of the time that a transfer takes: who would end so much later ends with the first


@dataclass(eq=False, slots=True)
class Transfer:
    """`size` bytes, in as many copies on each way of `ways` as it says; `who` is told at the end. `left` bytes of a
    copy were to go at `since`, at this `rate`."""

    who: Any
    size: float
    ways: Mapping[str, int]
    lane: Hashable
    left: float = 0.0
    since: float = 0.0
    rate: float = 0.0
    end: float = math.inf


class Sharing:
    """Of the ways with a rate, in bytes per second. `carried`: bytes that each has carried."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        self._rates = dict(rates)
        self.carried: defaultdict[str, float] = defaultdict(float)
        self._lanes: defaultdict[Hashable, deque[Transfer]] = defaultdict(deque)
        self._users: dict[str, dict[Transfer, None]] = {way: {} for way in rates}
        self._changed: dict[str, None] = {}  # ways to be shared anew
        self._now = 0.0
        self._ends: list[tuple[float, int, Transfer]] = []  # a heap; who has got another rate since is in it again
        self._numbers = count()

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._lanes.values()))} transfers over {len(self._rates)} ways>"

    def start(self, transfer: Transfer, now: float) -> None:
        """A transfer sets out, behind those of its lane."""
        lane = self._lanes[transfer.lane]
        lane.append(transfer)
        if len(lane) == 1:
            self._begin(transfer, now)

    def next_end(self) -> float:
        """When the next has left, should none begin before; infinity: none is under way."""
        if self._changed:
            self._share()
        while self._ends and self._ends[0][0] != self._ends[0][2].end:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else math.inf

    def ended(self, now: float) -> list[Transfer]:
        """Those that have left at `now`, the time that `next_end` gave; the next of their lanes set out."""
        due: list[Transfer] = []
        while self._ends:
            end, _, transfer = self._ends[0]
            if end == transfer.end and end > now + TOGETHER * (now - transfer.since):
                break
            heapq.heappop(self._ends)
            if end == transfer.end:
                transfer.end = -1.0
                due.append(transfer)
        for transfer in due:
            for way, copies in transfer.ways.items():
                self.carried[way] += copies * transfer.size
                del self._users[way][transfer]
                self._changed[way] = None
            lane = self._lanes[transfer.lane]
            lane.popleft()
            if lane:
                self._begin(lane[0], now)
        self._now = now
        return due

    def _begin(self, transfer: Transfer, now: float) -> None:
        transfer.left, transfer.since, self._now = transfer.size, now, now
        for way in transfer.ways:
            self._users[way][transfer] = None
            self._changed[way] = None

    def _share(self) -> None:
        """Share the ways that have changed, and those that their transfers use, and so on."""
        seen, waiting = dict(self._changed), list(self._changed)
        while waiting:
            for transfer in self._users[waiting.pop()]:
                for way in transfer.ways:
                    if way not in seen:
                        seen[way] = None
                        waiting.append(way)
        self._changed.clear()
        before = {transfer: transfer.rate for way in seen for transfer in self._users[way]}
        self._fill(seen, before)
        for transfer, rate in before.items():
            if transfer.rate != rate:
                transfer.left = max(0.0, transfer.left - rate * (self._now - transfer.since))
                transfer.since = self._now
                transfer.end = self._now + transfer.left / transfer.rate
                heapq.heappush(self._ends, (transfer.end, next(self._numbers), transfer))

    def _fill(self, ways: Iterable[str], transfers: Iterable[Transfer]) -> None:
        """The way that can give least to a copy is the first to be shared out, and so on. What the others can give only
        grows meanwhile: an entry of the heap is at most too small."""
        for transfer in transfers:
            transfer.rate = 0.0
        left = {way: self._rates[way] for way in ways}
        copies = {way: sum(transfer.ways[way] for transfer in self._users[way]) for way in ways}
        least = [(left[way] / copies[way], way) for way in ways if copies[way]]
        heapq.heapify(least)
        while least:
            known, way = heapq.heappop(least)
            if not copies[way]:
                continue
            share = max(left[way], TOGETHER * self._rates[way]) / copies[way]  # rounding leaves less than nothing
            if share > known * (1.0 + TOGETHER):
                heapq.heappush(least, (share, way))
                continue
            for transfer in self._users[way]:
                if not transfer.rate:
                    transfer.rate = share
                    for other, number in transfer.ways.items():
                        left[other] -= share * number
                        copies[other] -= number
