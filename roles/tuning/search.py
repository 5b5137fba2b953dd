"""What is asked in which order: the cold start of a run (Omnivore, E.4) and Algorithm 1 in each
epoch (5.2, E.3).

Cold start: the seconds of an iteration for each number of groups; the learning rate with one group
at the solver's momentum; then 2, 4, ... groups, up to the fewest that are within 5 % of the
fastest, each with its grid around the best of the one before; last, the best of each number of
groups beside one another after equal seconds, and where that is one group, its momenta.

Where momentum and learning rate may both be chosen, theory says with which of them other groups
learn alike (`alike`): these settings stand in the grids too, and of those that tie the one with the
most groups is taken, since it is the fastest. Where the budget does not pay for so many grids, or
the run is too short for them, it is asked as `short` has it; where theory says nothing, by the grid
of Algorithm 1.

Algorithm 1: the grid at the groups the run has, after the cold start at those that are as fast as
any. Where momentum 0 is the best, 0.1 and 0.2 beside it; where it stays the best, asynchrony gives
more momentum than is good: half as many groups, and again. In an epoch, what wins must not be
clearly worse than what the run has.

Where momentum is not to be chosen, it cannot say when there are too many groups: the next fewer and
the next more are then compared with those that the run has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from roles.tuning.choices import TENTH, Choices, Chosen, Setting, Trial, alike
from roles.tuning.grids import Grids
from roles.tuning.judgement import LEAST_IN, clearly_worse, ended_in, judged, mean
from roles.tuning.short import AS_FAST, Short, holds
from roles.tuning.trials import SpentUp, Trials

UNTRIED = Trial((), 0.0, diverged=True)  # worse than all that was tried


async def tune(
    trials: Trials, choices: Choices, now: Setting, before: Chosen | None = None
) -> Chosen:
    """The setting to go on with from the model of this moment, where the run has `now` and chose
    `before` (None: this is its cold start). Ends at the latest when the budget does, with the best
    of what was seen by then."""
    search = _Search(trials, choices, now, before)
    try:
        setting = await (search.cold_start() if before is None else search.epoch())
    except SpentUp:
        trials.tell(
            f"the budget has no {trials.length} iterations left to try: what was "
            "seen by now decides"
        )
        setting = search.best_seen()
    return search.chosen(setting, before)


def instead(trials: Trials, choices: Choices, now: Setting, fell: Chosen) -> Chosen:
    """The best of what was tried, after training diverged with what was chosen first
    (`Trials.fell`); if that diverges, too, a tenth of the rate. In a run that is too short for
    grids hardly anything was tried: see `left_of_theory`."""
    search = _Search(trials, choices, now, fell)
    setting = search.left_of_theory(fell.setting) or search.best_seen(f"not {fell.setting}")
    if choices.rates and trials.diverges(setting):
        setting = setting.but(base_lr=TENTH * fell.setting.base_lr)
        search.why += ", so a tenth of the rate"
    return search.chosen(setting, fell)


class _Search:
    def __init__(
        self, trials: Trials, choices: Choices, now: Setting, before: Chosen | None
    ) -> None:
        self.trials = trials
        self.choices = choices
        self.now = now
        self.grids = Grids(trials, choices, now)
        self.saturated = before.saturated if before else 0
        self._begin = (before.next_groups if before and choices.groups else 0) or now.groups
        self._cold = before is None
        self.why = ""
        self._theory = False
        # what learns as the best with one group does, as far as theory goes
        self._alike: list[Setting] = []

    def chosen(self, setting: Setting, before: Chosen | None) -> Chosen:
        """What the search ends with."""
        return Chosen(
            setting=setting,
            why=self.why,
            saturated=self.saturated,
            # Algorithm 1 begins where more groups would not be faster, and goes down from there
            # epoch by epoch
            next_groups=self.saturated if before is None and self.saturated else setting.groups,
            iteration_seconds=self.trials.iteration_seconds,
            spent=self.trials.spent,
            tried=tuple(self.trials.made),
            by_theory=self._theory,
        )

    async def cold_start(self) -> Setting:
        """See the module docstring."""
        best = self.now
        self._alike = self._learning_as(best) if self.choices.is_short(self.trials.left) else []
        if self._alike:
            return await self._by_theory()
        await self.trials.of(best)  # first: what is chosen is held against what the run has
        if self.choices.groups:
            await self._measure_groups(best)
        if self._counts() and self._costs() > self.trials.left_to_spend:
            if self._alike:
                return await self._by_theory()
            self.trials.tell(
                "the budget pays for no grid at each number of groups, so for that at "
                f"{self.saturated} only"
            )
            return await self._momentum_alone(
                await self._race([best, await self._algorithm_1(self.saturated)])
            )
        if self.choices.rates:
            best = await self.grids.rates(best)
            self._alike = self._learning_as(best)
        if not self.choices.groups:
            if self.choices.momenta:
                best = await self.grids.around(best, best.groups, freely=True)
            self.why = self._lowest(best)
            return best
        bests = [best]
        for groups in self._counts():
            by_theory = [setting for setting in self._alike if setting.groups == groups]
            bests.append(await self.grids.around(bests[-1], groups, beside=by_theory))
        return await self._momentum_alone(await self._race(bests))

    async def _by_theory(self) -> Setting:
        self._theory = True
        self.trials.tell(
            "the budget pays for no grid at each number of groups: theory says what learns alike"
        )
        short = Short(self.trials, [self.now, *self._alike])
        await short.time(tell=not self.saturated)
        self.saturated = short.saturated
        best = await short.choose()
        self.why = short.why
        return best

    async def _momentum_alone(self, best: Setting) -> Setting:
        """Where one group is the best after all: a grid of its momenta too, if the budget pays for
        it. The paper keeps the usual 0.9 there to save time (E.4); who asks for momentum "auto"
        wants to know."""
        others = [best.but(momentum=momentum) for momentum in self.choices.momenta]
        wanted = sum(self.trials.cost(setting, self.trials.length) for setting in others)
        if best.groups > 1 or not others or wanted > self.trials.left_to_spend:
            return best
        self.grids.stays = best
        found = await self.grids.best_of([best, *others])
        if found != best:
            self.why = f"{self.why}; alone, {self._lowest(found)}"
        return found

    async def epoch(self) -> Setting:
        """See the module docstring."""
        choices = self.choices
        now = self.now
        await self.trials.of(now)
        if choices.groups and not choices.momenta:
            fewer = [count for count in choices.groups if count < now.groups][-1:]
            more = [
                count for count in choices.groups if now.groups < count <= (self.saturated or count)
            ][:1]
            counts = [*fewer, now.groups, *more]
            return await self._race([await self.grids.around(now, count) for count in counts])
        best = await self._algorithm_1(self._begin)
        self.why = self._lowest(best)
        return await self._unless_worse(best)

    async def _algorithm_1(self, groups: int) -> Setting:
        """Lines 3 to 7: the grid at so many groups, and at half as many while the best momentum is
        0."""
        freely = False
        while True:
            if not self._cold:
                self.grids.stays = self.now.but(groups=groups)
            best = await self.grids.around(self.now, groups, freely=freely)
            if not self.choices.momenta or best.momentum:
                return best
            best = await self.grids.finer(best)
            fewer = [count for count in self.choices.groups if count < groups]
            if best.momentum or not fewer:
                return best
            self.trials.tell(
                f"with {groups} groups momentum 0 is the best: there are too "
                f"many, {fewer[-1]} are tried"
            )
            groups = fewer[-1]  # fewer groups leave room for more momentum
            freely = True

    def _counts(self) -> list[int]:
        """The numbers of groups whose grids the cold start asks for."""
        return [groups for groups in self.choices.groups if 1 < groups <= self.saturated]

    def _costs(self) -> float:
        """Seconds of the grids of a cold start over groups, as far as is known before; 0 where
        groups alone are chosen, whose probes were made when they were measured."""
        if not self.choices.momenta and not self.choices.rates:
            return 0.0
        grids = sum(
            self.choices.per_groups * self.trials.cost_of_another(groups)
            for groups in self._counts()
        )
        return grids + len(self.choices.rates) * self.trials.cost_of_another(1)

    async def _measure_groups(self, best: Setting) -> None:
        """Seconds of an iteration for each number of groups: with what learns alike; where theory
        says nothing, at momentum 0 if that may be chosen, which is in the grid of each and does not
        diverge."""
        momentum = min(self.choices.momenta, default=best.momentum)
        self._alike = self._learning_as(best)
        by_theory = {setting.groups: setting for setting in self._alike}
        for groups in self.choices.groups[1:]:
            await self.trials.of(
                by_theory.get(groups) or best.but(groups=groups, momentum=momentum)
            )
        seconds = self.trials.iteration_seconds
        timed = {groups: seconds[groups] for groups in self.choices.groups if groups in seconds}
        if not timed:  # all diverged at once
            return
        self.saturated = next(
            groups for groups in timed if timed[groups] <= AS_FAST * min(timed.values())
        )
        shown = ", ".join(f"{1000 * value:.4g}" for value in timed.values())
        self._alike = [setting for setting in self._alike if setting.groups <= self.saturated]
        text = f"an iteration takes {shown} ms with {', '.join(map(str, timed))} groups"
        self.trials.tell(f"{text}; the fewest that are as fast as any: {self.saturated}")

    def _learning_as(self, best: Setting) -> list[Setting]:
        """What learns alike with more groups, as long as these are faster, if that is known yet."""
        if not self.choices.momenta or not self.choices.rates:
            return []
        counts = [
            groups
            for groups in self.choices.groups
            if best.groups < groups <= (self.saturated or groups)
        ]
        return [setting for groups in counts if (setting := alike(best, groups)) is not None]

    async def _race(self, bests: Sequence[Setting]) -> Setting:
        """Which of these settings of different groups is the best after equal seconds; ties are
        prolonged. See `_of_ties` for a tie to the end."""
        bests = left = list(dict.fromkeys(bests))
        seconds = _comparable([self._longest(setting) for setting in left])
        for doubled in range(self.choices.prolonged + 1):
            left = _level({setting: await self._for(setting, seconds) for setting in left}, seconds)
            if (
                len(left) == 1
                or doubled == self.choices.prolonged
                or not self._affords(left, 2 * seconds)
            ):
                break
            seconds *= 2
        best = self._of_ties(left)
        self.why = self._after(bests, left, best, seconds)
        return best

    async def _unless_worse(self, best: Setting) -> Setting:
        """`best`, but what the run has where that is clearly better after equal seconds: if the
        budget pays for it, as many as its probe took. As many iterations of more groups are over
        sooner, and what diverges slowly is not seen in them."""
        seconds = self._longest(self.now).seconds
        if self._affords([best], seconds):
            await self._for(best, seconds)
        trials = {setting: self._longest(setting) for setting in (best, self.now)}
        seconds = _comparable(list(trials.values()))
        if best == self.now or _level(trials, seconds) != [self.now]:
            return best
        self.why = f"{best} is the best of its groups, but clearly worse than what the run has"
        return self.now

    def left_of_theory(self, fell: Setting) -> Setting | None:
        """After what was chosen by theory fell: with as many groups the momentum and the rate that
        the run had, which move the model as far in the long run and less at once; if that falls
        too, what learns alike with fewer."""
        learning = self._learning_as(self.now)
        as_it_was = self.now.but(groups=fell.groups)
        if not self.choices.is_short(self.trials.left) or fell not in [*learning, as_it_was]:
            return None
        if self.trials.fallen == [fell] and not self.trials.diverges(as_it_was):
            self.why = f"not {fell}, but with the momentum and the rate that the run had"
            return as_it_was
        diverged = {setting for setting, trial in self.trials.made if trial.diverged}
        fewer = [each for each in learning if each.groups < fell.groups and each not in diverged]
        left = [setting for setting in fewer if not self.trials.diverges(setting)]
        self.why = (
            f"not {fell}; by theory it learns as what the run had, with the most "
            "groups that are left"
        )
        return max(left, key=lambda setting: setting.groups, default=None)

    def best_seen(self, because: str = "the budget was spent") -> Setting:
        """The best of the settings that were probed, after equal seconds."""
        seen = {setting: self._longest(setting) for setting, _ in self.trials.comparable}
        whole = {
            setting: trial
            for setting, trial in seen.items()
            if trial.diverged or len(trial.losses) >= LEAST_IN
        }
        kept = [
            setting
            for setting, trial in self.trials.made
            if trial.kept and not self.trials.diverges(setting)
        ]
        if len(whole) < 2 and kept and self.saturated:
            self.why = f"{because}; of what learns alike by theory it has the most groups"
            return max(kept, key=lambda setting: setting.groups)
        if not any(holds(trial) for trial in whole.values()) and self.now not in whole:
            self.why = f"{because}; nothing else can be compared"
            return self.now
        seconds = _comparable(list(whole.values()))
        left = _level(whole, seconds)
        best = self._of_ties(left)
        self.why = f"{because}; {self._after(list(whole), left, best, seconds)}"
        return best

    def _of_ties(self, left: Sequence[Setting]) -> Setting:
        """Of what learns alike the one with the most groups, if its loss does not rise again; else
        what the run has, then the fewest groups: what staleness costs near the optimum does not
        show."""
        by_theory = [setting for setting in left if setting in self._alike and self._holds(setting)]
        if by_theory:
            return max(by_theory, key=lambda setting: setting.groups)
        return self.now if self.now in left else min(left, key=lambda setting: setting.groups)

    def _holds(self, setting: Setting) -> bool:
        """Is nothing seen that speaks against theory?"""
        return holds(self._longest(setting))

    def _longest(self, setting: Setting) -> Trial:
        return self.trials.longest(setting) or UNTRIED

    async def _for(self, setting: Setting, seconds: float) -> Trial:
        """A probe that lasts so many seconds."""
        known = self._longest(setting)
        if known.diverged or known.seconds >= seconds:
            return known
        return await self.trials.of(setting, self._iterations(setting, seconds))

    def _affords(self, left: Sequence[Setting], seconds: float) -> bool:
        return (
            sum(self.trials.cost(each, self._iterations(each, seconds)) for each in left)
            <= self.trials.left_to_spend
        )

    def _iterations(self, setting: Setting, seconds: float) -> int:
        trial = self._longest(setting)
        return (
            math.ceil(seconds / trial.iteration_seconds)
            if trial.iteration_seconds
            else len(trial.losses)
        )

    def _lowest(self, best: Setting) -> str:
        trial = self._longest(best)
        if trial.diverged:
            return "everything that was tried diverges"
        return f"the lowest loss of {len(self.trials.made)} probes, {mean(judged(trial)):.4g}"

    def _after(
        self, asked: Sequence[Setting], left: Sequence[Setting], best: Setting, seconds: float
    ) -> str:
        trial = self._longest(best)
        if trial.diverged:
            return "everything that was tried diverges"
        loss = f"{mean(judged(trial, ended_in(trial, seconds))):.4g}"
        if len(asked) == 1:
            return (
                f"the best with {best.groups} groups, the fewest that are as fast as any: "
                f"loss {loss}"
            )
        if len(left) == 1:
            return (
                f"after {seconds:.3g} s its loss is clearly the lowest of {len(asked)} "
                f"settings, {loss}"
            )
        kept = (
            ("by theory they learn alike: the most groups are the fastest")
            if best in self._alike
            else "the run has it"
        )
        kept = kept if best in (self.now, *self._alike) else "fewer groups are less stale"
        return (
            f"after {seconds:.3g} s {len(left)} of {len(asked)} settings tie at loss "
            f"{loss}, and {kept}"
        )


def _comparable(trials: Sequence[Trial]) -> float:
    """After how many seconds to compare them: when the first of them ended, and enough iterations
    of the slowest."""
    found = [trial for trial in trials if not trial.diverged]
    slowest = max((trial.iteration_seconds for trial in found), default=0.0)
    return max(min((trial.seconds for trial in found), default=0.0), LEAST_IN * slowest)


def _level(trials: Mapping[Setting, Trial], seconds: float) -> list[Setting]:
    """Those that tie with the best after so many seconds, the best first."""
    losses = {setting: judged(trial, ended_in(trial, seconds)) for setting, trial in trials.items()}
    ranked = sorted(losses, key=lambda setting: mean(losses[setting]))
    best = ranked[0]
    return [
        each
        for each in ranked
        if not clearly_worse(losses[each], losses[best], paired=each.groups == best.groups)
    ]
