"""The cold start of a run whose budget does not pay for a grid at each number of groups.

For each number of groups, theory gives the setting that learns alike (`choices.alike`), and the
model of the cluster gives the seconds of an iteration (`hardware`). The fewest groups that are as
fast as any are probed. The probes answer the questions that theory and model leave open.

The first question is whether the setting learns. The same probe shows whether the model is right
about its seconds. If it is not, the model is fitted to the probe, and the choice is made again.

If the loss falls, the second question is whether it goes on falling. A longer probe of the same
setting shows it, and is training if it does. If it does not, half of the gain is taken, provided
that its loss is lower.

The third question is whether the published rate is too low. Three times the rate is compared with
it, again and again, as long as the higher rate is clearly better.

If the loss does not fall, the net does not bear the whole gain. With old gradients, the longest
step that a net bears may be a tenth of the step that it bears with one group. CIFAR-10 quick with 8
groups learns at an eighth of the gain: at the rate that the run had, with less momentum
(`choices.careful`). More groups then need more iterations, and fewer may reach the target sooner.
The model's seconds decide how many groups are taken. A setting of still less momentum is compared
with the one that was taken (`choices.most_careful`). If it is the run's own number of groups, three
times the rate is compared with it.

A probe at the whole gain whose loss falls is training and is kept. A probe at the rate that the run
had is kept also if its loss does not fall yet. The longer probe of a setting that a higher rate or
less momentum is compared with is kept if its loss falls at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from roles.tuning.choices import Setting, Trial, careful, most_careful, of_gain
from roles.tuning.hardware import fewest
from roles.tuning.judgement import (
    THRESHOLD,
    clearly_worse,
    holds,
    judged,
    mean,
    stays_low,
)
from roles.tuning.trials import SpentUp, Trials

# the factor from one rate to the next, half a decade: ten times a rate that learns well usually
# diverges
STEP = 3.0
# times the expected cost of two probes must be left, so that the budget does not end in the second
MARGIN = 1.25
# g groups need g ** STALE times as many iterations as one group where old gradients keep their
# steps short. cifar10_quick took 311, 540, 958 and 1 526 iterations to a loss of 1.5 with 1, 2, 4
# and 8 groups, at one rate and at momenta that make the total 0.9.
STALE = 0.75
STEADY = 4  # turns of each group in a probe at the rate of the run
# iterations of a long probe, and turns of each group in it: with stale gradients, a loss that
# diverges has risen after 4 to 6 turns
LOOK = 24
TURNS = 6
LESS = 0.5  # of the gain, where the loss does not go on falling with the whole gain
HALF = 0.5  # the part of the budget that comparisons with a choice by theory may use
ANY = 1e-9  # the part by which a loss has to fall: at all


class Short:
    """The search among the settings of `alike`, one for each number of groups, in ascending order;
    the first is the run's own.

    `saturated`: the fewest groups that are as fast as any, once a probe agrees. `why`: the reason
    of the choice.
    """

    def __init__(self, trials: Trials, alike: Sequence[Setting]) -> None:
        self._trials = trials
        self._alike = list(alike)
        self._probed: dict[Setting, Trial] = {}
        self._first = math.inf  # the loss of the model that the search begins with
        self.saturated = 0
        self.why = ""

    def __repr__(self) -> str:
        return (
            f"<{len(self._alike)} settings that learn alike, {self.saturated or 'no'} "
            "groups are as fast as any>"
        )

    async def agree(self) -> None:
        """Probe the fewest groups that are as fast as any by the model, until the model agrees with
        a probe. Raises SpentUp if the budget ends before."""
        while (setting := self._fewest()) not in self._probed:
            trial = self._probed[setting] = await self._trials.of(setting, kept=True)
            if math.isinf(self._first) and trial.losses:
                self._first = trial.losses[0]
        self.saturated = setting.groups

    def _fewest(self) -> Setting:
        """The setting with the fewest groups that are as fast as any; the most groups if no seconds
        are known."""
        known = self._trials.iteration_seconds
        counts = [each.groups for each in self._alike if each.groups in known]
        groups = fewest({count: known[count] for count in counts})
        return next((each for each in self._alike if each.groups == groups), self._alike[-1])

    async def choose(self) -> Setting:
        """The most groups that are worth having and whose probe bears the whole gain of a gradient.
        If none does, the groups that learn soonest at the rate of the run."""
        worth = [each for each in self._alike if each.groups <= self.saturated]
        for best in reversed(worth[1:] or worth):
            if not await self._holds(best):
                continue
            if not self._falls(self._probed[best]):
                break
            self.why = (
                "by theory this setting learns like the one that the run had, and "
                f"{best.groups} groups are the fastest whose probe agrees"
            )
            less = None if await self._goes_on(best) else await self._less(best)
            if less is not None:
                return less
            taken = best if self._trials.diverges(best) else await self._bolder(best)
            if not self._trials.diverges(taken):
                return taken
            break  # a longer probe showed what the first did not
        self.why = (
            f"{best} would learn like the setting that the run had, but its loss does not fall "
            f"({_loss(self._probed[best])})"
        )
        best = await self._fewer(worth[-1])
        # late gradients did not bear the whole gain, so more groups bear no higher rate either
        return await (self._bolder(best) if best == self._alike[0] else self._lower(best))

    async def begin_at_the_rate(self) -> None:
        """Probe the most groups, where no other rate than that of the run is tried. An iteration of
        them is the shortest, so the model is fitted at the least cost. They are left out if their
        loss rises."""
        most = self._alike[-1]
        if not stays_low(await self._trials.of(most, kept=True, falls=0.0)):
            self._alike.remove(most)

    async def at_the_rate(self) -> Setting:
        """The groups that learn soonest at the rate of the run."""
        self.saturated = self._alike[-1].groups
        best = await self._fewer(self._alike[-1])
        self.why = f"momentum follows the groups{self.why}"
        return best

    async def _holds(self, setting: Setting) -> bool:
        """True if the probe of the setting does not contradict theory.

        A probe whose loss rises is repeated for longer: of twelve losses, the last three may be
        high by chance.
        """
        if setting not in self._probed:
            self._probed[setting] = await self._trials.of(setting, kept=True)
        trial = self._probed[setting]
        if holds(trial) or trial.diverged:
            return not trial.diverged
        longer = self._probed[setting] = await self._trials.of(
            setting, self._long(setting), kept=True
        )
        return holds(longer) and self._falls(longer)

    def _falls(self, trial: Trial) -> bool:
        """True if the loss is clearly below that of the model with which the search started.

        It is not compared with the probe's own first loss. That is the loss of one batch, and it
        may be low already, since earlier probes may have been kept.
        """
        return not trial.diverged and mean(judged(trial)) < (1 - THRESHOLD) * self._first

    async def _goes_on(self, setting: Setting) -> bool:
        """True if the loss also falls in a long probe, which then is training.

        A net whose first outputs are random begins above the loss of a constant output, and a first
        probe may show no more than the way there. The setting is not doubted if the budget does not
        pay for this probe and another one, or if the probe was a long one already.
        """
        length = self._long(setting)
        costs = 2 * MARGIN * self._trials.cost(setting, length)
        enough = setting.groups == 1 or len(self._probed[setting].losses) >= length
        if enough or costs > self._trials.left_to_spend:
            return True
        try:
            look = self._probed[setting] = await self._trials.of(setting, length, kept=True)
        except SpentUp:
            return True
        return not look.diverged and mean(judged(look)) < (1 - THRESHOLD) * look.losses[0]

    async def _less(self, best: Setting) -> Setting | None:
        """The setting with half of the gain, if its loss is lower than that of `best`, which does
        not go on falling; else None. Its probe is training."""
        here = self._probed[best]
        less = of_gain(best, LESS)
        if here.diverged or not holds(here):
            return None
        try:
            there = await self._trials.of(less, self._long(best), kept=True, falls=0.0)
        except SpentUp:
            return None
        if not stays_low(there) or mean(judged(there)) >= mean(judged(here)):
            return None
        self.why += (
            f"; but its loss does not go on falling, and is lower with half of the gain "
            f"({_loss(there)}, {_loss(here)} with the whole gain)"
        )
        return less

    def _long(self, setting: Setting) -> int:
        """A number of iterations that is large enough to show the effect of stale gradients."""
        return max(LOOK, TURNS * setting.groups, self._trials.length)

    async def _fewer(self, most: Setting) -> Setting:
        """The setting of the groups, at most as many as `most` has, that learn soonest if steps are
        as short as old gradients make them, and whose loss does not rise at the rate of the run."""
        known = self._trials.iteration_seconds
        needs = {
            each: known[each.groups] * math.pow(each.groups, STALE)
            for each in self._alike
            if each.groups <= most.groups and each.groups in known
        }
        if len(needs) > 1:
            shown = ", ".join(f"{1000 * seconds:.4g}" for seconds in needs.values())
            counts = ", ".join(str(setting.groups) for setting in needs)
            rate = f"with base_lr {self._alike[0].base_lr:.4g}"
            self.why += (
                f"; {rate}, {counts} groups usually need {shown} ms to learn as much as one "
                "group learns in an iteration"
            )
        for tried, best in enumerate(sorted(needs, key=needs.__getitem__)):
            trial = await self._trained(self._careful(best))
            if trial is None and (tried or self._trials.diverges(best)):
                break  # others failed, and the budget does not show that this one does not
            if trial is None or stays_low(trial):
                self.saturated = min(self.saturated, best.groups)
                return best
        return self._alike[0]

    async def _trained(self, setting: Setting) -> Trial | None:
        """A probe of four turns that is kept as training, whatever its loss, unless the loss rises.
        None if the budget would not pay for it if it were not kept."""
        turns = max(self._trials.length, STEADY * setting.groups)
        if MARGIN * self._trials.cost(setting, turns) > self._trials.left_to_spend:
            return None
        try:
            return await self._trials.of(setting, turns, kept=True, falls=0.0)
        except SpentUp:
            return None

    def _careful(self, setting: Setting) -> Setting:
        """The setting for as many groups at the rate that the run has."""
        return careful(self._alike[0], setting.groups)

    async def _lower(self, best: Setting) -> Setting:
        """The setting with the rate that the run has, or that with less momentum, if that is
        clearly better."""
        kept = self._careful(best)
        less = most_careful(self._alike[0], best.groups)
        return less if less != kept and await self._is_better(less, kept) else kept

    async def _bolder(self, best: Setting) -> Setting:
        while await self._is_better(best.but(base_lr=STEP * best.base_lr), best):
            best = best.but(base_lr=STEP * best.base_lr)
        return best

    async def _is_better(self, other: Setting, best: Setting) -> bool:
        """True if `other` is clearly better than `best` after as many iterations from the same
        model. False if the budget does not pay for the comparison."""
        length = self._long(best)
        by_rate = other.base_lr != best.base_lr
        what = f"base_lr {other.base_lr:.4g}" if by_rate else f"momentum {other.momentum:.4g}"
        costs = sum(self._trials.cost(each, length) for each in (best, other))
        # the choice that theory makes is seldom wrong: half of the budget stays with the training
        if MARGIN * costs > self._trials.left_of(HALF):
            self.why += f"; the budget is too small to try {what}"
            return False
        try:
            there = await self._trials.of(other, length)
            here = self._probed[best] = await self._trials.of(best, length, kept=True, falls=ANY)
        except SpentUp:
            self.why += f"; the budget ended before {what} was tried"
            return False
        both = min(len(here.losses), len(there.losses))
        better = stays_low(there) and clearly_worse(
            judged(here, both), judged(there, both), paired=True
        )
        than = f"{best.base_lr:.4g}" if by_rate else f"{best.momentum:.4g}"
        compared = f"{_loss(there)}, {_loss(here)} with {than}"
        self.why += f"; {what} is {'' if better else 'not '}clearly better ({compared})"
        return better


def _loss(trial: Trial) -> str:
    return "diverges" if trial.diverged else f"loss {mean(judged(trial)):.4g}"
