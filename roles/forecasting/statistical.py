"""Statistical efficiency: the number of iterations that a target takes, learnt from runs (Omnivore,
section 4.2).

It depends on how gradients come to the model (the `manner`: which layers of it are stale) and on
the number of groups, but not on machines. So the result of one run holds for every plan of that
manner with as many groups. If a number of groups was run with several momenta and learning rates,
the best of them counts, as in Omnivore's figures. If one setting was run several times, the median
counts, so that a lucky seed promises nothing.

Between two numbers of groups that both reached the target, iterations are taken to be linear in log
g, since groups are doubled. So the estimate lies between the counts on either side. Beyond the
fewest and the most groups of the runs, nothing is known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median_high

from runtime.plan.prospects import Needed

NOT_REACHED = "not reached"  # runs with so many groups did not reach the target
ONE_GRADIENT = "no gradient stale"  # the manner of one group, whatever is stale with several


@dataclass(frozen=True, order=True)
class Setting:
    """The setting of a run. `manner`: the part of the model that is stale, in words."""

    manner: str
    groups: int
    momentum: float
    base_lr: float


@dataclass(frozen=True)
class Counted:
    """A run with one setting, and the iterations in which it reached the target; None if it did
    not."""

    setting: Setting
    iterations: int | None


class Efficiency:
    """The statistical efficiency for one target, from these runs."""

    def __init__(self, runs: Iterable[Counted]) -> None:
        every: defaultdict[Setting, list[float]] = defaultdict(list)
        for run in runs:
            every[run.setting].append(math.inf if run.iterations is None else run.iterations)
        self._typical = {setting: median_high(counts) for setting, counts in every.items()}

    def best(self, manner: str, groups: int) -> Setting | None:
        """The setting that counts for this number of groups. None if no run had as many, or none of
        them reached the target."""
        known = self._of(manner)
        return known[groups][1] if groups in known and known[groups][0] < math.inf else None

    def needed(self, manner: str, groups: int) -> Needed:
        """The iterations to the target with this number of groups."""
        known = self._of(manner)
        if groups in known:
            steps = known[groups][0]
            return Needed(steps, seen=True) if steps < math.inf else Needed(why=NOT_REACHED)
        fewer = max((g for g in known if g < groups), default=0)
        more = min((g for g in known if g > groups), default=0)
        if not (fewer and more and max(known[fewer][0], known[more][0]) < math.inf):
            return Needed()
        share = math.log(groups / fewer) / math.log(more / fewer)
        return Needed((1 - share) * known[fewer][0] + share * known[more][0])

    def _of(self, manner: str) -> Mapping[int, tuple[float, Setting]]:
        """Groups -> the fewest iterations, and the setting of that run. One group fits every
        manner."""
        found: dict[int, tuple[float, Setting]] = {}
        for setting, steps in sorted(self._typical.items()):
            fits = setting.manner == manner or (
                setting.groups == 1 and setting.manner == ONE_GRADIENT
            )
            if fits and (setting.groups not in found or steps < found[setting.groups][0]):
                found[setting.groups] = steps, setting
        return found
