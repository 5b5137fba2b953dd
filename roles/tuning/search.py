"""The order in which a search tries settings: the cold start of a run (Omnivore, E.4) and Algorithm
1 in each epoch (5.2, E.3).

The seconds of an iteration for each number of groups come from the model of the cluster
(`hardware`). The cold start chooses the learning rate with one group, at the solver's momentum.
Then come 2, 4, ... groups, up to the fewest that are within 5 % of the fastest. Each number of
groups gets a grid around the best setting of the number before it. Last, the best settings of all
numbers of groups are compared after equal seconds. If one group wins, the search also tries its
momenta.

Where both momentum and learning rate may be chosen, theory gives the settings with which other
numbers of groups learn alike (`alike`). The grids include these settings. If several of them tie,
the search takes the one with the most groups, since it is the fastest. If the budget does not pay
for so many grids, or the run is too short for them, `short` chooses among the settings that learn
alike. If theory gives no setting, the search uses the grid of Algorithm 1. Where
groups are all that is chosen, momentum follows them, and the budget does not pay for a comparison,
`short` takes the groups that learn soonest at the rate of the run.

Algorithm 1 starts with a grid at the number of groups that the run has. After the cold start, it
starts at the fewest groups that are as fast as any. If momentum 0 is the best, it tries 0.1 and 0.2
too. If 0 remains the best, asynchrony gives more momentum than is good: the grid is repeated with
half as many groups, and so on. In an epoch, the winner is taken unless it is clearly worse than the
setting that the run has.

Where momentum may not be chosen, it cannot show that there are too many groups. The search then
compares the run's number of groups with the next smaller and the next larger one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from roles.tuning.choices import TENTH, Choices, Chosen, Setting, Trial, alike, careful, in_words
from roles.tuning.grids import Grids
from roles.tuning.hardware import fewest
from roles.tuning.judgement import (
    LEAST_IN,
    best_of,
    clearly_worse,
    ended_in,
    judged,
    mean,
    stays_low,
)
from roles.tuning.short import Short
from roles.tuning.trials import SpentUp, Trials

UNTRIED = Trial((), 0.0, diverged=True)  # worse than every tried setting


async def tune(
    trials: Trials, choices: Choices, now: Setting, before: Chosen | None = None
) -> Chosen:
    """Search for the setting to go on with, from the model of this moment.

    `now` is the setting that the run has. `before` is the result of the last search, None at the
    cold start. The search ends at the latest when its budget is spent, with the best setting seen
    so far.
    """
    search = _Search(trials, choices, now, before)
    try:
        setting = await (search.cold_start() if before is None else search.epoch())
    except SpentUp:
        trials.tell(
            f"the budget does not pay for another probe of {trials.length} iterations: "
            "the best setting so far is taken"
        )
        setting = search.best_seen()
    return search.chosen(setting, before)


def instead(trials: Trials, choices: Choices, now: Setting, fell: Chosen) -> Chosen:
    """Choose another setting after training diverged with the one chosen first, `fell`.

    The choice is the best of the tried settings. Settings as bold as a fallen one count as diverged
    (`Trials.fell`). If the best diverges too, the choice is a tenth of the rate of `fell`. A run
    that is too short for grids has tried hardly any settings: see `left_of_theory`.
    """
    search = _Search(trials, choices, now, fell)
    setting = search.left_of_theory(fell) or search.best_seen(f"{fell.setting} diverged")
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
        goes_on = before is not None and choices.groups and now.groups == before.setting.groups
        self._begin = (before.next_groups if before and goes_on else 0) or now.groups
        known = {groups: trials.iteration_seconds.get(groups, 0.0) for groups in choices.groups}
        then = {g: before.iteration_seconds.get(g, 0.0) for g in known} if before else {}
        if then and all(known.values()) and all(then.values()) and fewest(known) != fewest(then):
            self._begin = self.saturated = fewest(known)  # the cluster is not what it was
        self._cold = before is None
        self.why = ""
        self._theory = False
        # the settings that learn as the best with one group does, as far as theory goes
        self._alike: list[Setting] = []

    def chosen(self, setting: Setting, before: Chosen | None) -> Chosen:
        """The result of the search, with `setting` as its choice."""
        return Chosen(
            setting=setting,
            why=self.why,
            saturated=self.saturated,
            # Algorithm 1 starts where more groups would not be faster; later epochs may go to
            # fewer
            next_groups=self.saturated if before is None and self.saturated else setting.groups,
            iteration_seconds=self.trials.iteration_seconds,
            spent=self.trials.spent,
            tried=tuple(self.trials.made),
            by_theory=self._theory,
        )

    async def cold_start(self) -> Setting:
        """Run the cold start that the module's docstring describes."""
        best = self.now
        self._alike = self._learning_as(best) if self.choices.is_short(self.trials.left) else []
        if self._alike:
            return await self._by_theory()
        ruled = self.choices.by_rule(best)
        if self._may_be_short(ruled) and (found := await self._by_rule(ruled)) is not None:
            return found
        await self.trials.of(best)  # first: the choice is compared with the run's own setting
        if self.choices.groups:
            self._saturate(best)
            await self._look_at_most(best)
        if self._counts() and self._costs() > self.trials.left_to_spend:
            if self._alike:
                return await self._by_theory()
            self.trials.tell(
                "the budget does not pay for a grid at each number of groups, so only "
                f"{self.saturated} groups get one"
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
        done = 1
        while groups := next((each for each in self._counts() if each > done), 0):
            by_theory = [setting for setting in self._alike if setting.groups == groups]
            bests.append(await self.grids.around(bests[-1], groups, beside=by_theory))
            done = groups
            self._saturate(best)  # a probe may have shown that the model was wrong
        return await self._momentum_alone(await self._race(bests))

    async def _by_theory(self) -> Setting:
        self._theory = True
        self.trials.tell(
            "the budget does not pay for a grid at each number of groups: theory gives the "
            "settings that learn alike"
        )
        short = Short(self.trials, [self.now, *self._alike])
        await short.agree()
        self.saturated = short.saturated
        best = await short.choose()
        self.saturated = short.saturated  # fewer, if the net does not bear the whole gain
        self.why = short.why
        known = self.trials.longest(self.now) is not None
        return await self._unless_worse(best) if known else best

    def _may_be_short(self, ruled: Sequence[Setting]) -> bool:
        """True if the budget does not pay for a comparison after equal seconds, should an iteration
        of g groups be g times as fast as that of one group."""
        if len(ruled) < 2:
            return False
        most = len(ruled) * self.trials.length * self.choices.groups[-1]
        return self.choices.budget * self.trials.left < most

    async def _by_rule(self, ruled: Sequence[Setting]) -> Setting | None:
        """The number of groups by the rule of momentum and the model of the cluster, where nothing
        else is chosen. None if the budget pays for a comparison of all after equal seconds: one
        group alone may take as long as all others together."""
        short = Short(self.trials, ruled)
        await short.begin_at_the_rate()
        if len(ruled) * self.trials.cost_of_another(ruled[0].groups) <= self.trials.left_to_spend:
            return None
        self._theory = True
        self.trials.tell(
            "the budget does not pay for a comparison of the groups after equal seconds: the model "
            "of the cluster and the rule of momentum decide"
        )
        best = await short.at_the_rate()
        self.saturated = short.saturated
        self.why = short.why
        return best

    async def _momentum_alone(self, best: Setting) -> Setting:
        """Try the other momenta if one group is the best and the budget pays for them.

        The paper keeps the usual 0.9 there to save time (E.4). A user who sets momentum to "auto"
        wants to know.
        """
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
        """Run the search of an epoch that the module's docstring describes."""
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
        """Lines 3 to 7: the grid at this number of groups, then at half as many while the best
        momentum is 0."""
        freely = False
        while True:
            if not self._cold:
                self.grids.stays = careful(self.now, groups)
            best = await self.grids.around(self.now, groups, freely=freely)
            if not self.choices.momenta or best.momentum:
                return best
            best = await self.grids.finer(best)
            fewer = [count for count in self.choices.groups if count < groups]
            if best.momentum or not fewer:
                return best
            self.trials.tell(
                f"with {groups} groups momentum 0 is the best, so there are too many groups: "
                f"{fewer[-1]} {'are' if fewer[-1] > 1 else 'is'} tried"
            )
            groups = fewer[-1]  # fewer groups leave room for more momentum
            freely = True

    def _counts(self) -> list[int]:
        """The numbers of groups for which the cold start makes a grid."""
        return [groups for groups in self.choices.groups if 1 < groups <= self.saturated]

    def _costs(self) -> float:
        """Seconds that the grids of a cold start over groups cost, as far as is known in advance.

        0 where only groups are chosen: their probes were made when groups were measured.
        """
        if not self.choices.momenta and not self.choices.rates:
            return 0.0
        grids = sum(
            self.choices.per_groups * self.trials.cost_of_another(groups)
            for groups in self._counts()
        )
        return grids + len(self.choices.rates) * self.trials.cost_of_another(1)

    async def _look_at_most(self, best: Setting) -> None:
        """Probe the most groups if the model, which has seen only the run's own, finds no others
        faster: the time of work may depend on its rows in another way than in proportion."""
        if self.saturated != best.groups or len(self.trials.iteration_seconds) < 2:
            return
        self.saturated = 0
        by_theory = self._learning_as(best)
        plain = self.choices.in_groups(best, max(self.choices.groups))
        momentum = min(self.choices.momenta, default=plain.momentum)
        await self.trials.of(by_theory[-1] if by_theory else plain.but(momentum=momentum))
        self._saturate(best)

    def _saturate(self, best: Setting) -> None:
        """Find the fewest groups that are as fast as any, by the model of the cluster. Without a
        model, all groups are taken to be faster than fewer."""
        known = self.trials.iteration_seconds
        seconds = {groups: known[groups] for groups in self.choices.groups if groups in known}
        before = self.saturated
        self.saturated = fewest(seconds) if len(seconds) > 1 else max(self.choices.groups)
        self._alike = self._learning_as(best)
        if self.saturated == before or len(seconds) < 2:
            return
        shown = ", ".join(f"{1000 * value:.4g}" for value in seconds.values())
        text = f"an iteration takes {shown} ms with {', '.join(map(str, seconds))} groups"
        self.trials.tell(f"{text}; the fewest that are as fast as any: {self.saturated}")

    def _learning_as(self, best: Setting) -> list[Setting]:
        """The settings with more groups that learn like `best`, up to the number of groups from
        which more are not faster, if that is known yet."""
        if not self.choices.momenta or not self.choices.rates:
            return []
        counts = [
            groups
            for groups in self.choices.groups
            if best.groups < groups <= (self.saturated or groups)
        ]
        return [setting for groups in counts if (setting := alike(best, groups)) is not None]

    async def _race(self, bests: Sequence[Setting]) -> Setting:
        """The best of these settings of different groups after equal seconds. Ties are prolonged;
        `_of_ties` decides a tie that remains."""
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
        """`best`, unless the run's own setting is clearly better after equal seconds.

        If the budget pays for it, `best` first gets a probe of as many seconds as the probe of the
        run's setting took. More groups finish the same number of iterations sooner, so a short
        probe of them does not show slow divergence.
        """
        seconds = self._longest(self.now).seconds
        if self._affords([best], seconds):
            await self._for(best, seconds)
        trials = {setting: self._longest(setting) for setting in (best, self.now)}
        seconds = _comparable(list(trials.values()))
        is_worse = _level(trials, seconds) == [self.now]
        rises_again = stays_low(trials[self.now]) and not stays_low(trials[best])
        if best == self.now or not (is_worse or rises_again):
            return best
        text = "clearly worse than the setting that the run has"
        self.why = (
            f"{best} is the best with its number of groups, but "
            f"{text if is_worse else 'its loss rises again'}"
        )
        return self.now

    def left_of_theory(self, chosen: Chosen) -> Setting | None:
        """The setting to try after a setting chosen by theory diverged; None where theory gives no
        other.

        The first choice has as many groups at the rate that the run had (`careful`), where a
        gradient has less gain. If that diverges too, the choice is among the settings with fewer
        groups that learn alike: the one with the most groups.
        """
        if not chosen.by_theory:
            return None
        self._theory = True
        fell = chosen.setting
        learning = self._learning_as(self.now) or self.choices.by_rule(self.now)
        lower = careful(self.now, fell.groups)
        if self.trials.fallen == [fell] and not self.trials.diverges(lower):
            self.why = f"{fell} diverged; now with the rate that the run had and less momentum"
            return lower
        diverged = {setting for setting, trial in self.trials.made if trial.diverged}
        fewer = [each for each in learning if each.groups < fell.groups and each not in diverged]
        left = [setting for setting in fewer if not self.trials.diverges(setting)]
        self.why = (
            f"{fell} diverged; by theory this setting learns like the one that the run had, "
            "with the most groups that are left"
        )
        return max(left, key=lambda setting: setting.groups, default=None)

    def best_seen(self, because: str = "the budget was spent") -> Setting:
        """The best of the probed settings after equal seconds."""
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
            self.why = (
                f"{because}; of the settings that learn alike by theory it has the most groups"
            )
            return max(kept, key=lambda setting: setting.groups)
        if not any(map(stays_low, whole.values())) and self.now not in whole:
            self.why = f"{because}; no other setting can be compared"
            return self.now
        seconds = _comparable(list(whole.values()))
        left = _level(whole, seconds)
        best = self._of_ties(left)
        self.why = f"{because}; {self._after(list(whole), left, best, seconds)}"
        return best

    def _of_ties(self, left: Sequence[Setting]) -> Setting:
        """Decide a tie: the most groups among the settings that learn alike, if their loss does not
        rise again.

        Otherwise the setting that the run has, then the fewest groups. A probe does not show the
        cost of staleness near the optimum.
        """
        by_theory = [
            setting for setting in left if setting in self._alike and self._stays_low(setting)
        ]
        if by_theory:
            return max(by_theory, key=lambda setting: setting.groups)
        if self.now in left:
            return self.now
        lasting = [setting for setting in left if self._stays_low(setting)]
        return min(lasting or left, key=lambda setting: setting.groups)

    def _stays_low(self, setting: Setting) -> bool:
        """True if no observation speaks against training with the setting."""
        return stays_low(self._longest(setting))

    def _longest(self, setting: Setting) -> Trial:
        return self.trials.longest(setting) or UNTRIED

    async def _for(self, setting: Setting, seconds: float) -> Trial:
        """Return a probe that lasts at least `seconds`."""
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
        if len(asked) == 1 and best.groups == self.saturated:
            groups = in_words(best.groups)
            return f"the best with {groups}, the fewest that are as fast as any: loss {loss}"
        if len(asked) == 1:
            return f"no other setting can be compared: loss {loss}"
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
    """The seconds after which to compare the trials: when the first of them ended, but not before
    the slowest has ended LEAST_IN iterations."""
    found = [trial for trial in trials if not trial.diverged]
    slowest = max((trial.iteration_seconds for trial in found), default=0.0)
    return max(min((trial.seconds for trial in found), default=0.0), LEAST_IN * slowest)


def _level(trials: Mapping[Setting, Trial], seconds: float) -> list[Setting]:
    """The settings that tie after `seconds` with the best whose loss stays low, the lowest loss
    first."""
    losses = {setting: judged(trial, ended_in(trial, seconds)) for setting, trial in trials.items()}
    ranked = sorted(losses, key=lambda setting: mean(losses[setting]))
    best = best_of(ranked, trials)
    return [
        each
        for each in ranked
        if not clearly_worse(losses[each], losses[best], paired=each.groups == best.groups)
    ]
