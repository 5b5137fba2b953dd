"""A cycle of work as a graph: pieces of work at stations, transfers over shared ways, and the
pieces that each of them waits for.

A compute group goes round its cycle again and again. A piece begins when all pieces that it waits
for have ended, in this cycle (`after`) or in the group's previous one (`since`): x(n) = the latest
of their ends + its time. This is the recursion of a timed event graph (Baccelli, Cohen, Olsder and
Quadrat, Synchronization and Linearity, 1992, section 2.5). Layers whose computing and transfers
overlap are such a graph. In addition,

    stations    serve pieces in the order in which they become ready, of any group
    ways        are shared max-min (`rate_sharing`)
    times       are drawn in every cycle, from a gamma distribution with the piece's mean and
                variation. So a group that waits for its slowest member waits for the expected
                maximum, and groups meet at a station as they really do.

The graph is evaluated cycle by cycle, and only the later half counts. One group is evaluated until
its mean is known well enough. Several groups all begin at once and get in each other's way. They
may find an order in which they do not, and how long that takes is chance. So they go through MOST
cycles, or fewer if all cycles become equally long. If times still vary then, this is one of several
draws, whose mean is the result. Two evaluations with the same seed are the same.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from statistics import fmean, pstdev
from typing import NamedTuple

from runtime.queueing.lane_window import Window
from runtime.queueing.rate_sharing import Sharing, Transfer

LEAST = 10  # least number of cycles of one group; SEVERAL: of several groups
SEVERAL = 24
MOST = 64
ENOUGH = 0.005  # relative standard error of the mean with which the evaluation of one group ends
# for several groups: if the times of all rounds of the later half differ by less than this share,
# so will all that follow
ALIKE = 1e-9
# relative standard error of a draw of several groups; more draws are made if it is larger
ORDERLY = 0.01
DRAWS = 4
PIECES = 200_000  # no further rounds or draws after so many pieces, which take 2 s
# turns of one group that may have begun and not ended: a part of a cycle that waits for no other
# part and takes no time would otherwise go round for ever
AHEAD = 64
BATCHES = 8


class Sent(NamedTuple):
    """In `after`: wait until a transfer is admitted to its lane, not until its end."""

    name: Hashable


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work, or a transfer.

    Work takes `seconds` at a `station` ("": pieces do not wait for each other there), with
    `variation`, a squared coefficient of variation. A transfer is `size` bytes on a `lane`, with a
    number of copies on each of `ways` (no ways: it arrives at once). The pieces that wait for it
    may begin `delay` later. A piece that waits for nothing begins when the previous cycle ends.

    A transfer is admitted to its lane when there is room in the lane's `window` (`Window`). A piece
    that waits for `Sent` of it waits only for that.

    `takes`: the piece begins only when the stretch of this name is free. It is then taken until a
    piece of the same cycle `gives` it back at its end. The piece that was ready first takes it
    next.
    """

    name: Hashable
    after: tuple[Hashable, ...] = ()
    since: tuple[Hashable, ...] = ()
    station: str = ""
    seconds: float = 0.0
    variation: float = 0.0
    size: float = 0.0
    ways: Mapping[str, int] = field(default_factory=dict)
    lane: Hashable = None
    window: float = math.inf
    delay: float = 0.0
    takes: str = ""
    gives: str = ""


@dataclass(frozen=True)
class Evaluated:
    """The result of an evaluation.

    - `seconds`: mean time between two ends of cycles, of all groups together.
    - `use`: the part of the time in which each station and way is busy.
    - `cycles`: the number of measured cycles.
    - `spread`: the standard deviation of the draws, as a part of their mean; 0 for one draw.
    """

    seconds: float
    use: Mapping[str, float]
    cycles: int
    spread: float = 0.0


def evaluate(
    groups: Sequence[Sequence[Piece]],
    rates: Mapping[str, float],
    seed: int = 1,
    *,
    rounds: int = 0,
    draws: int = DRAWS,
) -> Evaluated:
    """Evaluate groups with these cycles, over ways with these rates in bytes per second.

    `rounds`: the later half of exactly so many cycles of each group, at least 2, from the moment at
    which all groups begin at once, in place of the mean of a long run (0). `draws`: the most draws
    whose mean is the result. Raises ValueError if a piece waits for one that does not exist, or a
    cycle can never end.
    """
    cycles = [_Cycle(pieces) for pieces in groups]
    chance = random.Random(seed)  # noqa: S311  # a simulation
    found: list[Evaluated] = []
    pieces = 0
    while True:
        one = _Evaluation(cycles, rates, chance, rounds)
        found.append(one.run())
        pieces += one.done
        if len(cycles) == 1 or one.error < ORDERLY or len(found) == draws or pieces > PIECES:
            return _mean(found)


def _mean(found: Sequence[Evaluated]) -> Evaluated:
    """Return the mean of several draws."""
    use = {name: fmean(one.use.get(name, 0.0) for one in found) for name in found[0].use}
    seconds = [one.seconds for one in found]
    mean = fmean(seconds)
    spread = pstdev(seconds, mean) / mean if mean else 0.0
    return Evaluated(mean, use, sum(one.cycles for one in found), spread)


class _Cycle:
    """The pieces of a group's cycle, and for each piece those that wait for it, in this cycle and
    in the next."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = list(pieces)
        place = {piece.name: at for at, piece in enumerate(self.pieces)}
        place |= {Sent(name): at for name, at in place.items()}
        missing = [
            name
            for piece in self.pieces
            for name in (*piece.after, *piece.since)
            if name not in place
        ]
        if missing or len(place) < 2 * len(self.pieces):
            raise ValueError(
                "found two pieces with one name, or pieces that wait for names outside of the "
                f"cycle: {missing[:3]}"
            )
        self.then: list[list[int]] = [[] for _ in self.pieces]
        self.then_sent: list[list[int]] = [[] for _ in self.pieces]
        self.then_next: list[list[int]] = [[] for _ in self.pieces]
        self.waits = [len(piece.after) for piece in self.pieces]
        # of a turn that follows another
        self.waits_next = [len(piece.after) + len(piece.since) for piece in self.pieces]
        for at, piece in enumerate(self.pieces):
            for name in piece.after:
                (self.then_sent if isinstance(name, Sent) else self.then)[place[name]].append(at)
            for name in piece.since:
                self.then_next[place[name]].append(at)
        self.roots = [
            at for at, piece in enumerate(self.pieces) if not piece.after and not piece.since
        ]

    def first(self) -> _Turn:
        return _Turn(self, list(self.waits), len(self.pieces))

    def next(self, turn: _Turn) -> _Turn:
        return _Turn(self, list(self.waits_next), len(self.pieces), turn.number + 1)


@dataclass(slots=True)
class _Turn:
    """One round of a cycle: the number of pieces that each piece still waits for, the number of
    pieces that have not ended, and the number of the turn of its group."""

    cycle: _Cycle
    waits: list[int]
    left: int
    number: int = 0
    following: _Turn | None = None


class _Evaluation:
    """One draw. `done`: the pieces that have ended. `error`: the relative standard error of the
    mean."""

    def __init__(
        self,
        cycles: list[_Cycle],
        rates: Mapping[str, float],
        chance: random.Random,
        rounds: int,
    ) -> None:
        self._cycles = cycles
        self._rounds = rounds
        self._rates = rates
        self._sharing = Sharing(rates)
        self._chance = chance
        self._events: list[tuple[float, int, _Turn, int]] = []
        self._numbers = count()
        self._free: defaultdict[str, float] = defaultdict(float)
        self._busy: defaultdict[str, float] = defaultdict(float)
        self._taken: dict[str, deque[tuple[_Turn, int]]] = {}  # stretch -> pieces that wait for it
        self._windows: dict[Hashable, Window[_Turn]] = {}
        self._ended: defaultdict[_Cycle, int] = defaultdict(int)  # turns
        # turns that wait until turns before them have ended, with the pieces that go on then
        self._ahead: defaultdict[_Cycle, list[tuple[_Turn, Sequence[int]]]] = defaultdict(list)
        self.done = 0
        self.error = math.inf
        self._ends: list[float] = []
        self._now = 0.0

    def run(self) -> Evaluated:
        for cycle in self._cycles:
            turn = cycle.first()
            for at, waits in enumerate(turn.waits):
                if not waits:
                    self._begin(turn, at, 0.0)
        groups = len(self._cycles)
        least = LEAST if groups == 1 else SEVERAL
        # after each round of all groups
        marks: list[tuple[float, dict[str, float], dict[str, float]]] = []
        while True:
            marks.append((self._until(groups), dict(self._busy), dict(self._sharing.carried)))
            # the first rounds are not measured, since all groups begin at once
            first = self._rounds // 2 - 1 if self._rounds else len(marks) // 2
            later = marks[first:]
            taken = [after - before for (before, *_), (after, *_) in pairwise(later)]
            if self._rounds and len(marks) >= self._rounds:
                break
            if not self._rounds and len(marks) >= least:
                self.error = _error(taken)
                known = (
                    self.error < ENOUGH
                    if groups == 1
                    else max(taken) - min(taken) <= ALIKE * max(taken)
                )
                if known or len(marks) >= MOST or self.done > PIECES:
                    break
        (began, busy, carried), (ended, busy_then, carried_then) = later[0], later[-1]
        seconds = ended - began
        over = seconds or 1.0  # if nothing takes any time, nothing is busy
        use = {name: (spent - busy.get(name, 0.0)) / over for name, spent in busy_then.items()}
        for way, carries in carried_then.items():
            use[way] = (carries - carried.get(way, 0.0)) / self._rates[way] / over
        return Evaluated(seconds / (len(taken) * groups), use, len(taken) * groups)

    def _until(self, cycles: int) -> float:
        """Run until `cycles` further cycles have ended. Return the time of the last end."""
        wanted = len(self._ends) + cycles
        events = self._events
        sharing = self._sharing
        ends = self._ends
        now = self._now
        while len(ends) < wanted:
            due = events[0][0] if events else math.inf
            if due > now and (leaves := sharing.next_end()) <= due:
                if leaves == math.inf:
                    raise ValueError("some pieces of the cycle wait for each other")
                now = leaves
                for transfer in sharing.ended(now):
                    turn, at = transfer.who
                    self._at(now + turn.cycle.pieces[at].delay, turn, at)
            else:
                now, _, turn, at = heapq.heappop(events)
                self._end(turn, at, now)
        self._now = now
        return ends[-1]

    def _at(self, time: float, turn: _Turn, at: int) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), turn, at))

    def _begin(self, turn: _Turn, at: int, now: float) -> None:
        """Begin a piece: all pieces that it waits for have ended."""
        piece = turn.cycle.pieces[at]
        if piece.takes:
            if piece.takes in self._taken:
                self._taken[piece.takes].append((turn, at))
                return
            self._taken[piece.takes] = deque()
        self._work(piece, turn, at, now)

    def _work(self, piece: Piece, turn: _Turn, at: int, now: float) -> None:
        if piece.ways:
            window = self._windows.get(piece.lane)
            if window is None:
                window = self._windows[piece.lane] = Window(piece.window)
            window.comes(turn, at, piece.size)
            self._admit(window, now)
            return
        if then := turn.cycle.then_sent[at]:
            self._go_on(turn, then, now)
        if station := piece.station:
            seconds = piece.seconds
            if seconds and piece.variation:
                seconds = self._chance.gammavariate(
                    1.0 / piece.variation, seconds * piece.variation
                )
            now = max(now, self._free[station]) + seconds
            self._free[station] = now
            self._busy[station] += seconds
        else:
            now += piece.seconds
        self._at(now + piece.delay, turn, at)

    def _admit(self, window: Window[_Turn], now: float) -> None:
        while window.waiting and (admitted := window.admitted()):
            turn, at = admitted
            piece = turn.cycle.pieces[at]
            self._sharing.start(Transfer(admitted, piece.size, piece.ways, piece.lane), now)
            if then := turn.cycle.then_sent[at]:
                self._go_on(turn, then, now)

    def _go_on(self, turn: _Turn, places: Sequence[int], now: float) -> None:
        """Take one piece off the waits of each of these places."""
        for place in places:
            turn.waits[place] -= 1
            if not turn.waits[place]:
                self._begin(turn, place, now)

    def _give(self, stretch: str, now: float) -> None:
        if self._taken[stretch]:
            turn, at = self._taken[stretch].popleft()
            self._work(turn.cycle.pieces[at], turn, at, now)
        else:
            del self._taken[stretch]

    def _end(self, turn: _Turn, at: int, now: float) -> None:
        cycle = turn.cycle
        piece = cycle.pieces[at]
        if piece.gives:
            self._give(piece.gives, now)
        if piece.ways:
            window = self._windows[piece.lane]
            window.gone(piece.size)
            self._admit(window, now)
        self.done += 1
        turn.left -= 1
        following = turn.following
        if following is None:
            following = turn.following = cycle.next(turn)
        if then := cycle.then[at]:
            self._go_on(turn, then, now)
        if then := cycle.then_next[at]:
            if following.number - self._ended[cycle] < AHEAD:
                self._go_on(following, then, now)
            else:
                self._ahead[cycle].append((following, then))
        if not turn.left:
            self._ends.append(now)
            self._ended[cycle] += 1
            for one, places in self._ahead.pop(cycle, ()):
                self._go_on(one, places, now)
            for place in cycle.roots:
                self._begin(following, place, now)


def _error(taken: Sequence[float]) -> float:
    """Return the relative standard error of the mean of some times.

    Neighbours depend on each other, so it uses the means of batches (as in `estimates`).
    """
    size = -(-len(taken) // BATCHES)
    taken = [
        math.fsum(taken[at : at + size]) / size for at in range(0, len(taken) - size + 1, size)
    ]
    mean = math.fsum(taken) / len(taken)
    if not mean:
        return 0.0
    return (
        math.sqrt(math.fsum((one - mean) ** 2 for one in taken) / (len(taken) - 1) / len(taken))
        / mean
    )
