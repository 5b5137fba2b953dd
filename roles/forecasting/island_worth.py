"""The worth of each machine of a run of islands: how much sooner the run has learned as much with
it than without it.

Islands together train more samples in a second than one process, but learn less from each: the mean
of models that learn apart moves less than each of them (`LOST`). So a machine that adds few
samples, or whose link makes the periods long, may cost more than it brings. Decisions only, no
message is sent and no clock is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from roles.learning.local_steps import LocalSteps, StepsBySpeed, shared_out

LOST = 30.0
"""What islands lose in learning. n islands of speeds v count as N = (sum v)^2 / sum v^2 equal ones,
and an iteration of a run with P periods is worth 1 / (1 + LOST (N - 1) / P) iterations of one
process. Measured with a ResNet of 8 layers on CIFAR-10: 0.66 and 0.80 with N = 2.9 and P = 117 and
234, and 0.24 with eight islands and P = 47, where the rule says 0.67, 0.80 and 0.22."""

WAITED = 0.65  # of the grace window, by the gain that waits longest on average


@dataclass(frozen=True)
class IslandMachine:
    """A machine with islands.

    `seconds`: of an iteration of each of its islands, while all of them compute. `gain` and
    `answer`: bytes of a message with a gain of one island, and of the answer. `latency`: seconds of
    a message. `bytes_per_second`: of its interface, each way.
    """

    name: str
    seconds: tuple[float, ...]
    gain: float = 0.0
    answer: float = 0.0
    latency: float = 0.0
    bytes_per_second: float = float("inf")


@dataclass(frozen=True)
class IslandRun:
    """The facts that all machines of a run of islands share.

    `iterations`: of the whole run. `local`: the keys of its local steps; given speeds are those of
    the machines. `grace`: seconds of the grace window; None: all islands take part in each outer
    step. `overlaps`: islands go on learning while they wait for an answer. `work`: seconds in which
    an island encodes a gain and decodes an answer. `merge`: seconds of an outer step. `server`: the
    machine of the outer server; if that machine is not used, the server is on the first. `apart`:
    the server's machine if it has no islands. `lost`: as `LOST`.
    """

    iterations: int
    local: LocalSteps = field(default_factory=LocalSteps)
    grace: float | None = 0.25
    overlaps: bool = True
    work: float = 0.0
    merge: float = 0.0
    server: str = ""
    apart: IslandMachine | None = None
    lost: float = LOST


@dataclass(frozen=True)
class Pace:
    """The predicted pace of some machines: `rate`, their iterations in a second; `period`, the
    seconds between two gains of an island; `learned`, the iterations of one process that an
    iteration is worth."""

    rate: float
    period: float
    learned: float

    @property
    def value(self) -> float:
        """The iterations of one process that are worth as much as a second of these machines."""
        return self.rate * self.learned


@dataclass(frozen=True)
class Worth:
    """What a machine brings: `share` more learned in a second than without it, 0.06 for 6 %, by the
    paces `on` with it and `off` without it. `used`: False if the run is better off without it."""

    machine: str
    share: float
    on: Pace
    off: Pace
    used: bool = True

    def __str__(self) -> str:
        """ "thinkpad +6 %"."""
        return f"{self.machine} {_percent(self.share)}"

    @property
    def why(self) -> str:
        """The two parts of the worth: samples, and what is learned from each."""
        more = _percent(self.on.rate / self.off.rate - 1)
        each = _percent(self.on.learned / self.off.learned - 1)
        slower = self.on.period > 1.2 * self.off.period
        why = (
            f" as its link makes a period {self.on.period:.2g} s long, not {self.off.period:.2g} s"
        )
        return f"{more} samples in a second, {each} learned from each{why if slower else ''}"


def learned(speeds: Sequence[float], periods: float, lost: float = LOST) -> float:
    """The iterations of one process that an iteration of islands of these speeds is worth, in a run
    of so many periods. At most 1."""
    alike = sum(speeds) ** 2 / sum(speed * speed for speed in speeds)
    return periods / (periods + lost * (alike - 1)) if periods > 0 else 0.0


def pace(machines: Sequence[IslandMachine], run: IslandRun) -> Pace:
    """Predict the pace of islands on these machines."""
    ways = _ways(machines, run)
    seconds = [each for machine in machines for each in machine.seconds]
    steps = _steps(seconds, ways, run)
    exchanges = [up + down for up, down in ways]
    computing = [many * each + run.work for many, each in zip(steps, seconds, strict=True)]
    if run.grace is None:
        cycles = [max(computing) + max(exchanges)] * len(seconds)
    elif run.overlaps:
        cycles = [max(both) for both in zip(computing, exchanges, strict=True)]
    else:
        cycles = [sum(both) for both in zip(computing, exchanges, strict=True)]
    speeds = [many / cycle for many, cycle in zip(steps, cycles, strict=True)]
    rate = sum(speeds)
    period = 1 / fmean(1 / cycle for cycle in cycles)
    return Pace(rate, period, learned(speeds, run.iterations / rate / period, run.lost))


def _steps(
    seconds: Sequence[float], ways: Sequence[tuple[float, float]], run: IslandRun
) -> list[int]:
    """The iterations of each island in a period, as the coordinator chooses them."""
    names = [str(rank) for rank in range(len(seconds))]
    said = bool(run.local.speeds) or not run.local.together
    local = replace(run.local, speeds=tuple(1 / each for each in seconds) if said else ())
    found = StepsBySpeed(local, names, run.iterations)
    for rank, (name, (up, _)) in enumerate(zip(names, ways, strict=True)):
        found.stepped(name, rank, seconds[rank], 0.0)
        found.merged(rank, up)
    if not run.local.together:
        return [found.of(name) for name in names]
    speeds = local.speeds if local.speeds and not local.equal else [1.0] * len(names)
    cuts = shared_out(found.of(names[0]), speeds)
    return [high - low for low, high in itertools.pairwise(cuts)]


def _ways(machines: Sequence[IslandMachine], run: IslandRun) -> list[tuple[float, float]]:
    """For each island, the seconds until its gain is in the outer model, and those until it has the
    answer. Islands that share a link send neither together nor one after the other: half of the
    others' messages are counted."""
    server = run.apart or next((one for one in machines if one.name == run.server), machines[0])
    far = [one for one in machines if one is not server]
    gains = sum(one.gain * len(one.seconds) for one in far)
    answers = sum(one.answer * len(one.seconds) for one in far)
    found = []
    for one in machines:
        up, down = run.work / 2, 0.0
        if one is not server:
            latency = max(one.latency, server.latency)
            up += latency + _carried(one.gain, one, gains, server)
            down += latency + _carried(one.answer, one, answers, server)
        if len(machines) > 1 or len(one.seconds) > 1:
            up += WAITED * (run.grace or 0.0)
        found += [(up + run.merge, down)] * len(one.seconds)
    return found


def _carried(size: float, one: IslandMachine, together: float, server: IslandMachine) -> float:
    """Seconds of a message of an island of `one` on the slower of two links: its own, and that of
    the server, which carries `together` bytes for all islands."""
    own = (size + size * len(one.seconds)) / 2 / one.bytes_per_second
    return max(own, (size + together) / 2 / server.bytes_per_second)


def worths(machines: Sequence[IslandMachine], run: IslandRun) -> list[Worth]:
    """The worth of each machine, in their order, next to all others that are used.

    Machines are left out, and taken in again, one after the other, as long as the run gains by it.
    """
    used = list(machines)
    while (step := _better(machines, used, run)) is not None:
        used = step
    if len(machines) == 1:
        alone = pace(machines, run)
        return [Worth(machines[0].name, 0.0, alone, alone)]
    return [_worth(one, used, machines, run) for one in machines]


def _better(
    machines: Sequence[IslandMachine], used: Sequence[IslandMachine], run: IslandRun
) -> list[IslandMachine] | None:
    """The best choice that differs from `used` in one machine. None if no choice is better."""
    tried = [[one for one in machines if (one in used) != (one is other)] for other in machines]
    best = max(filter(None, tried), key=lambda each: pace(each, run).value, default=list(used))
    return best if pace(best, run).value > pace(used, run).value else None


def _worth(
    one: IslandMachine,
    used: Sequence[IslandMachine],
    machines: Sequence[IslandMachine],
    run: IslandRun,
) -> Worth:
    on = [each for each in machines if each in used or each is one]
    off = [each for each in on if each is not one]
    if not off:
        alone = pace(on, run)
        return Worth(one.name, 0.0, alone, alone)
    ahead, behind = pace(on, run), pace(off, run)
    return Worth(one.name, ahead.value / behind.value - 1, ahead, behind, one in used)


def _percent(share: float) -> str:
    return f"{round(100 * share):+d} %"
