"""The worth of each machine of a run of islands: how much sooner the run has learned as much with
it than without it.

Islands together train more samples in a second than one process, but learn less from each: the mean
of models that learn apart moves less than each of them (`LOST`). So a machine that adds few
samples, or whose link makes the periods long, may cost more than it brings. Decisions only, no
message is sent and no clock is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from roles.forecasting.island_periods import IslandMachine, IslandRun, periods

LOST = 30.0
"""What islands lose in learning. n islands of speeds v count as N = (sum v)^2 / sum v^2 equal ones,
and an iteration of a run with P periods is worth 1 / (1 + LOST (N - 1) / P) iterations of one
process. Measured with a ResNet of 8 layers on CIFAR-10: 0.66 and 0.80 with N = 2.9 and P = 117 and
234, and 0.24 with eight islands and P = 47, where the rule says 0.67, 0.80 and 0.22."""

LONGER = 1.2
"""A period counts as longer if it takes so many times as long. Less is within the draws."""


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
    paces `on` with it and `off` without it. `used`: False if the run is better off without it.
    `by_link`: the links, and not the iterations of the machine, make the periods `on` long."""

    machine: str
    share: float
    on: Pace
    off: Pace
    used: bool = True
    by_link: bool = False

    def __str__(self) -> str:
        """ "thinkpad +6 %"."""
        return f"{self.machine} {_percent(self.share)}"

    @property
    def why(self) -> str:
        """The two parts of the worth: samples, and what is learned from each."""
        more = _percent(self.on.rate / self.off.rate - 1)
        each = _percent(self.on.learned / self.off.learned - 1)
        told = f"{more} samples in a second, {each} learned from each"
        if self.on.period <= LONGER * self.off.period:
            return told
        cause = "its link makes" if self.by_link else "its slow iterations make"
        return (
            f"{told} as {cause} a period {self.on.period:.2g} s long, not {self.off.period:.2g} s"
        )


def learned(speeds: Sequence[float], periods: float) -> float:
    """The iterations of one process that an iteration of islands of these speeds is worth, in a run
    of so many periods. At most 1."""
    alike = sum(speeds) ** 2 / sum(speed * speed for speed in speeds)
    return periods / (periods + LOST * (alike - 1)) if periods > 0 else 0.0


def pace(machines: Sequence[IslandMachine], run: IslandRun) -> Pace:
    """Predict the pace of islands on these machines."""
    found = periods(machines, run)
    speeds = [each.speed for each in found]
    rate = sum(speeds)
    period = 1 / fmean(1 / each.seconds for each in found)
    return Pace(rate, period, learned(speeds, run.iterations / rate / period))


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
    """The best choice that differs from `used` in one machine. None if no choice is better. Of
    equal machines the last one goes first: the coordinator lives on the first."""
    tried = [
        [one for one in machines if (one in used) != (one is other)] for other in reversed(machines)
    ]
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
    by_link = ahead.period > LONGER * behind.period and _slow_links(on, run, ahead)
    share = ahead.value / behind.value - 1
    return Worth(one.name, share, ahead, behind, one in used, by_link)


def _slow_links(machines: Sequence[IslandMachine], run: IslandRun, found: Pace) -> bool:
    """Whether the periods that were `found` are longer than with links that take no time."""
    at_once = [replace(one, latency=0.0, bytes_per_second=math.inf) for one in machines]
    return found.period > LONGER * pace(at_once, run).period


def _percent(share: float) -> str:
    return f"{round(100 * share):+d} %"
