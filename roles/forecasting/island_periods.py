"""The periods of islands, from one gain to the next, on a small model of the run in events.

An island trains its steps, and sends a gain once it has the answer to the last one. Gains and
answers share the rates of interfaces (`rate_sharing`). The outer server waits for further gains as
`Gathering` and its grace window do, and the steps are those that the coordinator chooses
(`StepsBySpeed`). A formula would have to know which gains travel and arrive together, and that
follows from all of these. No message is sent and no clock is read.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from roles.learning.local_steps import LocalSteps, StepsBySpeed, shared_out
from runtime.queueing.rate_sharing import Sharing, Transfer

ENOUGH = 48  # gains of each island; the later half is measured
FEW = 16  # of many islands, which take long: so many gains of each, and OF_ALL of all
OF_ALL = 400
LEAST = 8  # gains of each island in a run with few iterations
MOST = 4 * ENOUGH  # mean gains of an island, if one of them sends few
LONGEST = 4 * MOST  # mean gains of an island, if one of them sends hardly any
SINGLE = 256  # steps of a period that are drawn one by one; those before them as a sum
DRAWS = 4
LEAST_VARIATION, MOST_VARIATION = 1e-12, 25.0  # that draws tell from none, and from any larger
VARIATION = 0.0025  # standard deviation of 5 %: without any, gains meet in the same order for ever


@dataclass(frozen=True)
class IslandMachine:
    """A machine with islands.

    `seconds`: of an iteration of each of its islands, while all of them compute. `gain` and
    `answer`: bytes of a message with a gain of one island, and of the answer. `latency`: seconds of
    a message. `bytes_per_second`: of its interface, each way. `variation`: the squared coefficient
    of variation of an iteration's seconds.
    """

    name: str
    seconds: tuple[float, ...]
    gain: float = 0.0
    answer: float = 0.0
    latency: float = 0.0
    bytes_per_second: float = math.inf
    variation: float = VARIATION


@dataclass(frozen=True)
class IslandRun:
    """The facts that all machines of a run of islands share.

    `iterations`: of the whole run. `local`: the keys of its local steps; given speeds are those of
    the machines. `grace`: seconds of the grace window; None: all islands take part in each outer
    step. `overlaps`: islands go on learning while they wait for an answer. `work`: seconds in which
    an island encodes a gain and decodes an answer. `merge`: seconds of an outer step. `server`: the
    machine of the outer server; if that machine is not used, the server is on the first. `apart`:
    the server's machine if it has no islands. `led_apart`: the coordinator is not on the server's
    machine.
    """

    iterations: int
    local: LocalSteps = field(default_factory=LocalSteps)
    grace: float | None = 0.25
    overlaps: bool = True
    work: float = 0.0
    merge: float = 0.0
    server: str = ""
    apart: IslandMachine | None = None
    led_apart: bool = False

    @property
    def goes_on(self) -> bool:
        """True if an island trains while it waits for an answer."""
        return self.overlaps and self.grace is not None


@dataclass(frozen=True)
class Periods:
    """The periods of one island: the mean of their `seconds`, and of the `steps` in them."""

    seconds: float
    steps: float

    @property
    def speed(self) -> float:
        """Iterations in a second."""
        return self.steps / self.seconds


def periods(machines: Sequence[IslandMachine], run: IslandRun) -> list[Periods]:
    """The periods of each island of these machines, after the beginning of the run. If the seconds
    of iterations vary, they are the means of several draws."""
    chance = random.Random(1)  # noqa: S311  # a simulation
    draws = DRAWS if any(one.variation for one in machines) else 1
    drawn = [_Events(machines, run, chance).run() for _ in range(draws)]
    return [
        Periods(fmean(one.seconds for one in each), fmean(one.steps for one in each))
        for each in zip(*drawn, strict=True)
    ]


@dataclass(eq=False)
class _Island:
    """An island. `ticket`: the steps of its next period. `steps`: those of the present one. `took`:
    the seconds of each of its last SINGLE steps; `before`: of all steps before these. `waits`: for
    the answer to its last gain. `trained`: all steps of this period are done. `gain`: the number of
    its last gain. `sent`: the time and the steps of each gain."""

    rank: int
    machine: IslandMachine
    seconds: float
    ticket: int = 0
    steps: int = 0
    took: list[float] = field(default_factory=list)
    before: float = 0.0
    waits: bool = False
    trained: bool = False
    gain: int = 0
    sent: list[tuple[float, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.rank)

    def periods(self, now: float, exchange: float) -> Periods:
        """The mean of the later half of its periods. An island without a whole period until `now`
        has one as long as the time since its last gain, its steps and its `exchange` are at
        least."""
        if len(self.sent) < 2:
            began = self.sent[-1][0] if self.sent else 0.0
            return Periods(max(now - began, self.ticket * self.seconds, exchange), self.ticket)
        (began, _), *later = self.sent[len(self.sent) // 2 - 1 :]
        ended, _ = later[-1]
        return Periods((ended - began) / len(later), sum(n for _, n in later) / len(later))


class _Events:
    """The events of one run, in the order of their times."""

    def __init__(
        self, machines: Sequence[IslandMachine], run: IslandRun, chance: random.Random
    ) -> None:
        self._run = run
        self._server = run.apart or next(
            (one for one in machines if one.name == run.server), machines[0]
        )
        each = ((one, seconds) for one in machines for seconds in one.seconds)
        self._islands = [_Island(rank, *pair) for rank, pair in enumerate(each)]
        seconds = [island.seconds for island in self._islands]
        given = tuple(1 / one for one in seconds) if run.local.speeds else ()
        names = [island.name for island in self._islands]
        local = replace(run.local, speeds=given)
        self._steps = StepsBySpeed(local, names, run.iterations)
        shares = given if given and not local.equal else (1.0,) * len(names)
        self._cuts = shared_out(self._ticket(names[0]), shares) if local.together else ()
        everyone = [*machines, self._server]
        rates = {f"{one.name} {way}": one.bytes_per_second for one in everyone for way in _WAYS}
        self._sharing = Sharing(rates)
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count(1)
        self._chance = chance
        self._waiting: list[_Island] = []  # at the server
        self._window = 0  # the number of the open window; 0: no gain waits, or a step is under way
        self._stepping = False

    def run(self) -> list[Periods]:
        """Go on until each island has sent enough gains."""
        now = 0.0
        for island in self._islands:
            self._ask(island, 0.0)
            self._begin(island, 0.0)
        while not self._enough:
            due = self._due[0][0] if self._due else math.inf
            leaves = self._sharing.next_end()
            if leaves <= due:
                now = leaves
                for transfer in self._sharing.ended(leaves):
                    transfer.who(leaves)
            else:
                now, _, happens = heapq.heappop(self._due)
                happens(now)
        return [island.periods(now, self._exchange(island)) for island in self._islands]

    @property
    def _enough(self) -> bool:
        sent = [len(island.sent) for island in self._islands]
        enough = max(FEW, min(ENOUGH, OF_ALL // len(sent)))
        if min(sent) >= enough or (min(sent) >= 2 and sum(sent) >= MOST * len(sent)):
            return True
        if sum(sent) >= LONGEST * len(sent):
            return True
        trained = sum(steps for island in self._islands for _, steps in island.sent)
        return min(sent) >= LEAST and trained >= self._run.iterations

    def _at(self, time: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (time, next(self._numbers), happens))

    def _begin(self, island: _Island, now: float) -> None:
        """Begin a period."""
        island.steps = island.ticket
        single = min(island.steps, SINGLE)
        island.before = self._drawn(island, island.steps - single)
        island.took = [self._drawn(island) for _ in range(single)]
        last = now + island.before
        self._at(last + sum(island.took[:-1]), lambda then: self._ask(island, then))
        self._at(last + sum(island.took), lambda then: self._trained(island, then))

    def _drawn(self, island: _Island, steps: int = 1) -> float:
        """Draw the seconds of so many iterations together."""
        variation = min(island.machine.variation, MOST_VARIATION)
        if variation < LEAST_VARIATION or not steps:
            return steps * island.seconds
        return self._chance.gammavariate(steps / variation, island.seconds * variation)

    def _ask(self, island: _Island, now: float) -> None:
        """Ask for the next ticket while the last iteration of this one is trained."""
        if self._cuts:
            island.ticket = self._cuts[island.rank + 1] - self._cuts[island.rank]
        else:
            island.ticket = self._ticket(island.name)

    def _ticket(self, name: str) -> int:
        """The iterations of the next ticket, which are no more than the run has."""
        return min(self._steps.of(name), self._run.iterations)

    def _trained(self, island: _Island, now: float) -> None:
        island.trained = True
        if not island.waits:
            self._encode(island, now)

    def _encode(self, island: _Island, now: float) -> None:
        """Encode a gain. The answer to the last one is decoded too, unless the island has waited
        for it."""
        island.trained = False
        work = self._run.work if self._run.goes_on else self._run.work / 2
        self._at(now + work, lambda then: self._send(island, then))

    def _send(self, island: _Island, now: float) -> None:
        island.gain = next(self._numbers)
        island.waits = True
        island.sent.append((now, island.steps))
        # the coordinator hears of outer steps as late as of iterations, unless it is at the server
        late = 0.0 if self._run.led_apart else self._latency(island)
        for seconds in island.took:
            self._steps.stepped(island.name, island.gain, seconds, now + late)
        size = island.machine.gain
        self._carry(island, size, _WAYS, now, lambda then: self._arrived(island, then))
        if self._run.goes_on:
            self._begin(island, now)

    def _latency(self, island: _Island) -> float:
        """Seconds of a message between the island and the server."""
        machine, server = island.machine, self._server
        return 0.0 if machine is server else max(machine.latency, server.latency)

    def _exchange(self, island: _Island) -> float:
        """Seconds of an island's gain and of the answer on links that nothing else uses."""
        machine = island.machine
        slower = min(machine.bytes_per_second, self._server.bytes_per_second)
        size = 0.0 if machine is self._server else machine.gain + machine.answer
        return 2 * self._latency(island) + size / slower

    def _carry(
        self,
        island: _Island,
        size: float,
        ways: tuple[str, str],
        now: float,
        arrived: Callable[[float], None],
    ) -> None:
        """Carry a message over the interfaces of the island and of the server."""
        machine, server = island.machine, self._server
        latency = self._latency(island)
        ends = {f"{machine.name} {ways[0]}": 1, f"{server.name} {ways[1]}": 1}
        slower = min(machine.bytes_per_second, server.bytes_per_second)
        if machine is server or not size or slower == math.inf:
            self._at(now + latency, arrived)
            return
        transfer = Transfer(
            lambda left: self._at(left + latency, arrived), size, ends, (island.rank, ways)
        )
        self._sharing.start(transfer, now)

    def _arrived(self, island: _Island, now: float) -> None:
        self._waiting.append(island)
        self._look(now)

    def _look(self, now: float) -> None:
        """Open a grace window if gains wait. Close it once every gain is there."""
        if self._stepping or not self._waiting:
            return
        if len(self._waiting) == len(self._islands):
            self._close(now)
        elif not self._window and self._run.grace is not None:
            window = self._window = next(self._numbers)
            self._at(now + self._run.grace, lambda then: self._passed(window, then))

    def _passed(self, window: int, now: float) -> None:
        if window == self._window:
            self._close(now)

    def _close(self, now: float) -> None:
        """Take an outer step with the gains that wait."""
        self._window = 0
        self._stepping = True
        taken, self._waiting = self._waiting, []
        self._at(now + self._run.merge, lambda then: self._stepped(taken, then))

    def _stepped(self, taken: Sequence[_Island], now: float) -> None:
        """Answer the islands whose gains are in the outer model."""
        self._stepping = False
        for island in taken:
            self._answer(island, now)
        self._look(now)

    def _answer(self, island: _Island, now: float) -> None:
        self._steps.merged(island.gain, now)
        size = island.machine.answer
        self._carry(island, size, _BACK, now, lambda then: self._answered(island, then))

    def _answered(self, island: _Island, now: float) -> None:
        island.waits = False
        if not self._run.goes_on:
            self._at(now + self._run.work / 2, lambda then: self._begin(island, then))
        elif island.trained:
            self._encode(island, now)


_WAYS = ("out", "in")  # of the island and of the server, for a gain
_BACK = ("in", "out")  # for an answer
