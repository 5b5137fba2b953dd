"""Grids of settings with the same number of groups: the best learning rate, and the best momentum
with it.

All probes of a question have the same length, so the losses of the last iterations decide. A clear
winner ends a question after the shortest probes. A tie repeats the settings that tie with twice as
many iterations. If the best learning rate is at the edge of the grid, the grid is widened. A
setting that diverges is worse than all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from roles.tuning.choices import TENTH, Choices, Setting, Trial, in_words
from roles.tuning.judgement import best_of, clearly_worse, judged, mean
from roles.tuning.trials import Trials

WIDENINGS = 3  # times that a grid is widened at each edge
FINER = (0.1, 0.2)  # momenta that are tried when 0 is the best (Omnivore, E.3)


class Grids:
    """The grids of one search, whose probes `trials` makes. `stays` wins a tie: the setting that
    the run has, or had with another number of groups."""

    def __init__(self, trials: Trials, choices: Choices, stays: Setting) -> None:
        self.trials = trials
        self.choices = choices
        self.stays = stays

    def __repr__(self) -> str:
        return f"<grids by {self.trials!r}>"

    async def best_of(self, settings: Sequence[Setting]) -> Setting:
        """The setting with the lowest loss. If several tie to the end, the setting that the run
        has, if it is among them; else the one with the lowest mean that does not rise again."""
        left = list(dict.fromkeys(settings))
        times = 1
        while True:
            length = times * self.trials.length
            found = {setting: await self.trials.of(setting, length) for setting in left}
            left = _not_clearly_worse(found)
            longer = sum(self.trials.cost(setting, 2 * length) for setting in left)
            most = 2**self.choices.prolonged
            if len(left) == 1 or times == most or longer > self.trials.spare:
                break
            times *= 2
        best = self.stays if self.stays in left else best_of(left, found)
        self._tell(settings, left, found, best)
        return best

    async def rates(self, start: Setting) -> Setting:
        """Choose the learning rate of the cold start: go up from the lowest until one is clearly
        worse than the one before."""
        wanted = {
            start,
            *(start.but(base_lr=start.base_lr * factor) for factor in self.choices.rates),
        }
        tried: list[Setting] = []
        for setting in sorted(wanted, key=lambda each: each.base_lr):
            tried.append(setting)
            if await self._worse(tried[-2:]):
                break
        best = await self.best_of([*tried, start])
        for _ in range(WIDENINGS):
            if best == tried[-1] and not await self._diverged(best):
                tried.append(wider := best.but(base_lr=best.base_lr / TENTH))
            # if all diverge, a lower rate may not
            elif best == tried[0] or await self._diverged(best):
                tried.insert(0, wider := tried[0].but(base_lr=tried[0].base_lr * TENTH))
            else:
                break
            if await self._diverged(best):
                self.trials.tell("every learning rate of the grid diverges: a lower one is tried")
            else:
                self._widened(best)
            best = await self.best_of([best, wider])
        return best

    async def around(
        self, last: Setting, groups: int, *, freely: bool = False, beside: Sequence[Setting] = ()
    ) -> Setting:
        """The best setting of the grid at `groups` groups: all momenta, with the learning rate of
        `last` and a tenth of it, and the settings of `beside`.

        A momentum above that of `last` is not tried at the same learning rate, unless `freely`
        (Omnivore, E.3 and E.4).
        """
        here = self.choices.in_groups(last, groups)
        rate = here.base_lr
        lower = here.base_lr * TENTH
        settings = [here] if groups == last.groups or not self.choices.momenta else []
        settings += [
            here.but(momentum=each)
            for each in self.choices.momenta
            if freely or each <= last.momentum
        ]
        if self.choices.rates:
            settings += [
                here.but(momentum=each, base_lr=lower)
                for each in self.choices.momenta or (here.momentum,)
            ]
        best = await self.best_of([*settings, *beside])
        for _ in range(WIDENINGS):
            if not self.choices.rates or best.base_lr >= rate:
                break
            rate = best.base_lr
            self._widened(best)
            best = await self.best_of([best, best.but(base_lr=rate * TENTH)])
        return best

    async def finer(self, best: Setting) -> Setting:
        """Where momentum 0 is the best of the grid: the best among it, 0.1 and 0.2."""
        return await self.best_of([best, *(best.but(momentum=momentum) for momentum in FINER)])

    def _widened(self, best: Setting) -> None:
        self.trials.tell(
            f"the best learning rate, {best.base_lr:.4g}, is at the edge of the "
            "grid, which is widened"
        )

    async def _diverged(self, setting: Setting) -> bool:
        return (await self.trials.of(setting)).diverged

    async def _worse(self, pair: Sequence[Setting]) -> bool:
        """True if the second setting is clearly worse than the first."""
        trials = [await self.trials.of(setting) for setting in pair]
        return len(pair) > 1 and clearly_worse(judged(trials[1]), judged(trials[0]), paired=True)

    def _tell(
        self,
        asked: Sequence[Setting],
        left: Sequence[Setting],
        found: dict[Setting, Trial],
        best: Setting,
    ) -> None:
        if len(asked) < 2:
            return
        iterations = max(len(trial.losses) for trial in found.values())
        groups = in_words(best.groups)
        what = f"of {len(asked)} settings with {groups} after {iterations} iterations"
        loss = f"loss {mean(judged(found[best])):.4g}"
        if len(left) == 1:
            self.trials.tell(f"{best} is the best {what}, clearly: {loss}")
            return
        lowest = "it has the lowest" if best == left[0] else "the lowest rises again, and it has"
        reason = "the run has it" if best == self.stays else f"{lowest} {loss}"
        self.trials.tell(f"{len(left)} tie {what}: {best} is taken, since {reason}")


def _not_clearly_worse(found: dict[Setting, Trial]) -> list[Setting]:
    """The settings that tie with the best whose loss stays low, the lowest loss first. As many
    iterations of each are compared. All settings if all diverged."""
    iterations = min(
        (len(trial.losses) for trial in found.values() if not trial.diverged), default=0
    )
    losses = {setting: judged(trial, iterations) for setting, trial in found.items()}
    ranked = sorted(found, key=lambda setting: mean(losses[setting]))
    best = best_of(ranked, found)
    return [each for each in ranked if not clearly_worse(losses[each], losses[best], paired=True)]
