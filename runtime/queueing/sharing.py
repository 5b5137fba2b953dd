"""Transfers that share ways: what each of several gets of an interface's rate, and when the next has left.

Transfers of one lane leave one after the other. Those that are under way at once share each way as TCP connections do:
nobody gets more until all with less are held back elsewhere. Source: max-min fairness by progressive filling, Bertsekas
and Gallager, Data Networks, section 6.5.2. Times are seconds, sizes bytes.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

TOGETHER = 1e-9  # of the time to the next end: who ends so much later ends with it


@dataclass(eq=False, slots=True)
class Transfer:
    """`size` bytes, in as many copies on each way of `ways` as it says; `who` is told at the end. `left` and `rate` are
    those of one copy."""

    who: Any
    size: float
    ways: Mapping[str, int]
    lane: Hashable
    left: float = 0.0
    rate: float = 0.0


class Sharing:
    """Of the ways with a rate, in bytes per second. `carried`: bytes that each has carried."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        self._rates = dict(rates)
        self.carried: defaultdict[str, float] = defaultdict(float)
        self._lanes: defaultdict[Hashable, deque[Transfer]] = defaultdict(deque)
        self._under_way: dict[Transfer, None] = {}
        self._now = 0.0
        self._end, self._due, self._known = math.inf, list[Transfer](), True  # of those under way

    def __repr__(self) -> str:
        return f"<{len(self._under_way)} transfers over {len(self._rates)} ways>"

    def start(self, transfer: Transfer, now: float) -> None:
        """A transfer sets out, behind those of its lane."""
        lane = self._lanes[transfer.lane]
        lane.append(transfer)
        if len(lane) == 1:
            self._begin(transfer, now)

    def next_end(self) -> float:
        """When the next has left, should none begin before; infinity: none is under way."""
        if not self._known:
            self._share()
            soonest = min((each.left / each.rate for each in self._under_way), default=math.inf)
            self._due = [each for each in self._under_way if each.left <= each.rate * soonest * (1.0 + TOGETHER)]
            self._end = self._now + soonest
            self._known = True
        return self._end

    def ended(self, now: float) -> list[Transfer]:
        """Those that have left at `now`, the time that `next_end` gave; the next of their lanes set out."""
        due = self._due
        self._advance(now)
        for each in due:
            del self._under_way[each]
            for way, copies in each.ways.items():
                self.carried[way] += copies * each.size
            lane = self._lanes[each.lane]
            lane.popleft()
            if lane:
                self._begin(lane[0], now)
        self._known = False
        return due

    def _begin(self, transfer: Transfer, now: float) -> None:
        self._advance(now)
        transfer.left = transfer.size
        self._under_way[transfer] = None
        self._known = False

    def _advance(self, now: float) -> None:
        passed = now - self._now
        if passed > 0.0:
            for each in self._under_way:
                each.left = max(0.0, each.left - each.rate * passed)
        self._now = now

    def _share(self) -> None:
        """The way that can give least to a copy is the first to be shared out, and so on."""
        users: defaultdict[str, list[Transfer]] = defaultdict(list)
        copies: defaultdict[str, int] = defaultdict(int)
        for each in self._under_way:
            each.rate = 0.0
            for way, count in each.ways.items():
                users[way].append(each)
                copies[way] += count
        left = {way: self._rates[way] for way in users}
        while left:
            tightest = min(left, key=lambda way: left[way] / copies[way])
            share = left[tightest] / copies[tightest]
            for each in users[tightest]:
                if each.rate:
                    continue
                each.rate = share
                for way, count in each.ways.items():
                    left[way] -= share * count
                    copies[way] -= count
            left = {way: max(rate, 0.0) for way, rate in left.items() if copies[way]}
