"""Statistical efficiency: how many iterations a target takes, by what runs have counted (Omnivore,
section 4.2).

It depends on how gradients come to the model (their `manner`: what of it is stale) and on the
number of groups, not on machines. So what was seen in one run is told of every plan of that manner
with as many groups. Where a number of groups was run with several momenta and learning rates, the
best of them counts, as in Omnivore's figures; of several runs of one setting their median, so that
a lucky seed is no promise.

Between two numbers of groups that both reached the target, iterations are taken to be linear in log
g, since groups are doubled: what is told lies between what was counted on either side. Beyond the
fewest and the most groups that were seen nothing is known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median_high

from runtime.plan.prospects import Needed

ONE_GRADIENT = "no gradient stale"  # with one group nothing is, whatever is stale with several


@dataclass(frozen=True, order=True)
class Setting:
    """With which a run learnt. `manner`: what of the model is stale, in words."""

    manner: str
    groups: int
    momentum: float
    base_lr: float


@dataclass(frozen=True)
class Counted:
    """A run with one setting: in how many iterations it reached the target; None: it did not."""

    setting: Setting
    iterations: int | None


class Efficiency:
    """Of one target, by these runs."""

    def __init__(self, runs: Iterable[Counted]) -> None:
        every: defaultdict[Setting, list[float]] = defaultdict(list)
        for run in runs:
            every[run.setting].append(math.inf if run.iterations is None else run.iterations)
        self._typical = {setting: median_high(counts) for setting, counts in every.items()}

    def best(self, manner: str, groups: int) -> Setting | None:
        """The setting that counts for so many groups; None if no run had as many, or none reached
        the target."""
        known = self._of(manner)
        return known[groups][1] if groups in known and known[groups][0] < math.inf else None

    def needed(self, manner: str, groups: int) -> Needed:
        """Iterations to the target with so many groups."""
        known = self._of(manner)
        if groups in known:
            steps = known[groups][0]
            return Needed(steps, seen=True) if steps < math.inf else Needed(why="not reached")
        fewer = max((g for g in known if g < groups), default=0)
        more = min((g for g in known if g > groups), default=0)
        if not (fewer and more and max(known[fewer][0], known[more][0]) < math.inf):
            return Needed()
        share = math.log(groups / fewer) / math.log(more / fewer)
        return Needed((1 - share) * known[fewer][0] + share * known[more][0])

    def _of(self, manner: str) -> Mapping[int, tuple[float, Setting]]:
        """Groups -> the fewest iterations, and with which setting. One group is of every manner."""
        found: dict[int, tuple[float, Setting]] = {}
        for setting, steps in sorted(self._typical.items()):
            fits = setting.manner == manner or (
                setting.groups == 1 and setting.manner == ONE_GRADIENT
            )
            if fits and (setting.groups not in found or steps < found[setting.groups][0]):
                found[setting.groups] = steps, setting
        return found
