"""The cold start of a run whose budget pays for no grid at each number of groups: theory says which
setting of each learns alike (`choices.alike`), so what is asked is what theory does not know.

How fast they are: from the most groups down, until fewer are clearly slower. With fewer groups an
iteration takes no less time, so what is slow is never waited for: an iteration of one group may
take as long as six of eight.

Whether the published rate is too low: three times as much beside it, as long as the more is clearly
better. Or, where the loss does not fall with it, whether it is too high. With old gradients the
longest step that a net bears may be a tenth of what it bears with one group: at the rate that
learns alike CIFAR-10 quick with 8 groups does not learn, and learns with an eighth of that, the
rate that the run had. Then more groups need more iterations, and fewer may be sooner there: they
are timed at that rate, from the most down, until they are not.

As all of these learn alike, a probe of them whose loss falls is training, and is kept; at the rate
that the run had, also if it does not fall yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from roles.tuning.choices import Setting, Trial
from roles.tuning.judgement import RISES, THRESHOLD, clearly_worse, judged, mean, rises
from roles.tuning.trials import SpentUp, Trials

AS_FAST = 1.05  # times the fastest seconds per iteration
STEP = 3.0  # times a rate: the next. Half a decade: ten times what learns well diverges as a rule
# times what two probes cost, as far as is known: the second shall not end with the budget
MARGIN = 1.25
# Groups that begin together share links and servers in step for some eight turns, longer than a
# probe takes: CIFAR-10 quick with 8 groups at 1 Gbit/s shows 4.3 ms an iteration, and takes 2.9
# later. So is what the budget pays for.
SETTLED = 2 / 3
# What g groups need more iterations than one where old gradients keep their steps short, as a power
# of g: cifar10_quick took 311, 540, 958 and 1 526 to a loss of 1.5 with 1, 2, 4 and 8, at one rate
# and at momenta that make the total 0.9.
STALE = 0.75
TIMED = 4  # turns of each group, of which the later half says how long an iteration takes
# iterations, and of each group: what diverges with stale gradients has risen after 4 to 6 turns
LOOK = 24
TURNS = 6


class Short:
    """Of `alike` settings with different groups, in the order of these; the first is what the run
    has. `saturated`: the fewest groups that are as fast as any, once they are timed; `why`: what
    was taken."""

    def __init__(self, trials: Trials, alike: Sequence[Setting]) -> None:
        self._trials = trials
        self._alike = list(alike)
        self._timed: dict[Setting, Trial] = {}
        self._first = math.inf  # the loss of the model that the search begins with
        self.saturated = 0
        self.why = ""

    def __repr__(self) -> str:
        return (
            f"<{len(self._alike)} settings that learn alike, {self.saturated or 'no'} "
            "groups are as fast as any>"
        )

    async def time(self, *, tell: bool = True) -> None:
        """Seconds of an iteration, and say them. SpentUp: the budget ends before."""
        timed: dict[int, float] = {}
        for setting in reversed(self._alike):
            trial = self._timed[setting] = await self._trials.of(setting, kept=True)
            if math.isinf(self._first) and trial.losses:
                self._first = trial.losses[0]
            timed[setting.groups] = _pace(trial)
            if timed[setting.groups] > AS_FAST * min(timed.values()):
                break
        self.saturated = min(
            groups for groups in timed if timed[groups] <= AS_FAST * min(timed.values())
        )
        shown = ", ".join(f"{1000 * seconds:.4g}" for seconds in timed.values())
        text = f"an iteration takes {shown} ms with {', '.join(map(str, timed))} groups"
        if tell:
            self._trials.tell(f"{text}; the fewest that are as fast as any: {self.saturated}")

    async def choose(self) -> Setting:
        """The most groups that are worth having and whose probe speaks for theory; with the rate
        that they bear."""
        best = self._alike[0]
        for setting in reversed([each for each in self._alike if each.groups <= self.saturated]):
            if await self._holds(setting):
                best = setting
                break
        self.why = (
            f"by theory it learns as what the run had, and {best.groups} groups are "
            "the fastest that hold"
        )
        timed = self._timed.get(best)
        if timed is None or self._falls(timed):
            return await self._bolder(best)
        self.why += f"; with base_lr {best.base_lr:.4g} its loss does not fall ({_loss(timed)})"
        return await self._lower(await self._fewer(best))

    async def _holds(self, setting: Setting) -> bool:
        """Does its probe? One whose loss rises is looked at for longer: of twelve losses the last
        three may be high by chance."""
        trial = self._timed.get(setting) or await self._trials.of(setting)
        if holds(trial) or trial.diverged:
            return not trial.diverged
        longer = self._timed[setting] = await self._trials.of(
            setting, self._long(setting), kept=True
        )
        return holds(longer) and self._falls(longer)

    def _falls(self, trial: Trial) -> bool:
        """Is its loss clearly below that of the model with which the search began? Not below its
        own first loss: the probes before it may have been kept, so that it begins low already, and
        that is the loss of one batch."""
        return not trial.diverged and mean(judged(trial)) < (1 - THRESHOLD) * self._first

    def _long(self, setting: Setting) -> int:
        """Iterations that show what stale gradients do."""
        return max(LOOK, TURNS * setting.groups, self._trials.length)

    async def _fewer(self, most: Setting) -> Setting:
        """As many groups or fewer: those that are there first, if steps are as short as old
        gradients make them."""
        needs: dict[Setting, float] = {}
        for setting in reversed([each for each in self._alike if each.groups <= most.groups]):
            trial = self._timed.get(setting)
            if (
                trial is None
                or setting == most
                or self._needs(setting.groups) < min(needs.values())
            ):
                trial = await self._trained(self._careful(setting))
            if trial is None:
                self.why += f"; the budget is too small to time {setting.groups} groups"
                break
            needs[setting] = math.inf if trial.diverged else self._needs(setting.groups)
            if needs[setting] > min(needs.values()):
                break
        best = min(needs, key=needs.__getitem__, default=most)
        if len(needs) > 1:
            shown = ", ".join(f"{1000 * seconds:.4g}" for seconds in needs.values())
            counts = ", ".join(str(setting.groups) for setting in needs)
            rate = f"with base_lr {self._alike[0].base_lr:.4g}"
            self.why += (
                f"; {rate} {counts} groups need {shown} ms to learn what one does in "
                "an iteration, as a rule"
            )
        self.saturated = min(self.saturated, best.groups)
        return best

    def _needs(self, groups: int) -> float:
        """Seconds for as much as one group learns in an iteration. The fastest probe counts,
        whatever its rate: groups that begin together get into one another's way."""
        paces = (_pace(trial) for setting, trial in self._trials.made if setting.groups == groups)
        return min(paces, default=math.inf) * math.pow(groups, STALE)

    async def _trained(self, setting: Setting) -> Trial | None:
        """A probe of four turns that is training whatever its loss does, unless it rises; none if
        the budget would not pay for it, were it none."""
        turns = max(self._trials.length, TIMED * setting.groups)
        if MARGIN * self._trials.cost(setting, turns) > self._trials.left_at(SETTLED):
            return None
        try:
            return await self._trials.of(setting, turns, kept=True, falls=0.0)
        except SpentUp:
            return None

    def _careful(self, setting: Setting) -> Setting:
        """With the rate that the run has."""
        return setting.but(base_lr=self._alike[0].base_lr)

    async def _lower(self, best: Setting) -> Setting:
        """The rate that the run has, or a third of what learns alike if that is clearly better."""
        careful = self._careful(best)
        third = best.but(base_lr=best.base_lr / STEP)
        return (
            third
            if third.base_lr > careful.base_lr and await self._is_better(third, careful)
            else careful
        )

    async def _bolder(self, best: Setting) -> Setting:
        while await self._is_better(best.but(base_lr=STEP * best.base_lr), best):
            best = best.but(base_lr=STEP * best.base_lr)
        return best

    async def _is_better(self, wider: Setting, best: Setting) -> bool:
        """Is it clearly, after as many iterations from the same model? If the budget pays for an
        answer."""
        length = self._long(best)
        costs = sum(self._trials.cost(each, length) for each in (best, wider))
        if MARGIN * costs > self._trials.left_at(SETTLED):
            self.why += f"; the budget is too small to try base_lr {wider.base_lr:.4g}"
            return False
        try:
            there = await self._trials.of(wider, length)
            here = await self._trials.of(best, length, kept=True)
        except SpentUp:
            self.why += f"; the budget ended before base_lr {wider.base_lr:.4g} was tried"
            return False
        both = min(len(here.losses), len(there.losses))
        better = holds(there) and clearly_worse(
            judged(here, both), judged(there, both), paired=True
        )
        compared = f"{_loss(there)}, {_loss(here)} with {best.base_lr:.4g}"
        self.why += (
            f"; base_lr {wider.base_lr:.4g} is {'' if better else 'not '}clearly "
            f"better ({compared})"
        )
        return better


def holds(trial: Trial) -> bool:
    """Does nothing speak against going on so? Its loss goes down, or is not far above that of an
    untrained model."""
    losses = judged(trial)
    return bool(losses) and not rises(trial) and mean(losses) <= RISES * trial.losses[0]


def _pace(trial: Trial) -> float:
    return float("inf") if trial.diverged else trial.iteration_seconds


def _loss(trial: Trial) -> str:
    return "diverges" if trial.diverged else f"loss {mean(judged(trial)):.4g}"
