"""Which batch: the one with which a second of training brings most.

An iteration with a batch B is worth `gain` iterations with the present one (roles.tuning.noise):
little where gradients are hardly noisy, as much as B is larger where they are nothing but noise.
How long it takes is measured. Their quotient is what Pollux calls goodput (Qiao et al. 2021,
equation 6): progress per second. The learning rate is multiplied with the gain, as AdaScale SGD
does (Johnson et al. 2020), so that what is worth so many iterations also goes as far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from roles.tuning.choices import LEAST, WARM, Chosen, Setting
from roles.tuning.gradient_statistics import GradientStatistics
from roles.tuning.noise import CLEAR, gain
from roles.tuning.trials import SpentUp, Trials

PAYS = 1.05  # times the present progress per second: a batch that brings less is not taken
WORTH = 1.5  # of a present iteration: from there on it is told that twice the batch may pay


@dataclass(frozen=True)
class Batches:
    """What is chosen at the end of a search, with the groups and rates of `chosen`. `noise`: the
    noise scale."""

    trials: Trials
    chosen: Chosen
    noise: float

    async def choose(self, batches: Iterable[int]) -> Chosen:
        """The same with the best of these batches, if one is clearly better than the present."""
        now = self.chosen.setting
        wanted = [batch for batch in sorted(batches) if batch != now.batch]
        seconds: dict[int, float] = {}
        try:
            seconds[now.batch] = await self._seconds(now)
            for batch in wanted:
                if _at_best(self.noise, batch, now.batch) >= PAYS:
                    seconds[batch] = await self._seconds(self._with(batch))
        except SpentUp:
            self.trials.tell(
                "the budget has too little left to try every batch: what was seen by now decides"
            )
        goods = {batch: self._gain(batch) / each for batch, each in seconds.items() if each}
        best = now.batch
        progress = 1.0
        for batch in goods if now.batch in goods else ():
            if goods[batch] / goods[now.batch] >= max(PAYS, progress):
                best = batch
                progress = goods[batch] / goods[now.batch]
        factor = self._gain(best) / progress  # of the seconds of an iteration
        return replace(
            self.chosen,
            setting=self._with(best),
            why=f"{self.chosen.why}; {self._why(best, progress, wanted, seconds)}",
            iteration_seconds={
                groups: factor * each for groups, each in self.trials.iteration_seconds.items()
            },
            spent=self.trials.spent,
            tried=tuple(self.trials.made),
        )

    def _gain(self, batch: int) -> float:
        return gain(self.noise, batch, self.chosen.setting.batch)

    def _with(self, batch: int) -> Setting:
        now = self.chosen.setting
        return (
            now
            if batch == now.batch
            else now.but(batch=batch, base_lr=now.base_lr * self._gain(batch))
        )

    async def _seconds(self, setting: Setting) -> float:
        """Of an iteration; 0 if it diverges. The first iterations with another batch take memory,
        and do not count."""
        here = self.trials.batch == setting.batch
        if here and setting.groups in self.trials.iteration_seconds:
            return self.trials.iteration_seconds[setting.groups]
        if not here:
            await self.trials.of(setting, WARM)
        share = self.trials.batch / setting.batch if self.trials.batch else 1.0
        trial = await self.trials.of(setting, max(LEAST, math.ceil(self.trials.length * share)))
        if trial.diverged:
            self.trials.tell(
                f"a batch of {setting.batch} with base_lr {setting.base_lr:.4g} diverges"
            )
            return 0.0
        return trial.iteration_seconds

    def _why(
        self, best: int, progress: float, wanted: Iterable[int], seconds: Mapping[int, float]
    ) -> str:
        now = self.chosen.setting.batch
        times = {batch: each / seconds[now] for batch, each in seconds.items() if seconds[now]}
        found = [
            f"{batch} is worth {self._gain(batch):.3g} of its iterations"
            + (f" and takes {times[batch]:.3g} times as long" if times.get(batch) else "")
            for batch in wanted
        ]
        told = (
            f"the noise scale is {self.noise:.3g} images: beside a batch of {now}, "
            f"{', '.join(found) or 'none'}"
        )
        if best == now:
            return f"{told}; none makes {PAYS - 1:.0%} more progress a second"
        left = self.trials.left
        rest = f"the {left} iterations that are left do the work of {left * self._gain(best):.0f}"
        return f"{told}; {best} makes {progress:.3g} times the progress a second, and {rest}"


def _at_best(noise: float, batch: int, now: int) -> float:
    """The progress per second that a batch could make: a larger one that takes no longer, a smaller
    one that takes as much less time."""
    return gain(noise, batch, now) * max(1.0, now / batch)


def noise_of(found: Iterable[GradientStatistics]) -> float | None:
    """The noise scale in images that model servers tell; of several the smallest, which promises
    least. None: nobody knows it well enough yet."""
    known = [each.noise for each in found if each.noise_error <= CLEAR * each.noise]
    return min(known, default=None)


def worth_telling(noise: float, batch: int) -> str:
    """A line on twice the batch, where that may pay; "" where it hardly can."""
    worth = gain(noise, 2 * batch, batch)
    if worth <= WORTH:
        return ""
    return (
        f"the noise scale is {noise:.3g} images: an iteration with twice the batch, "
        f"{2 * batch}, is worth {worth:.3g} "
        f"of the present ones, and pays if it takes less than {worth:.3g} times as long: "
        "train.batch = 'auto' finds out"
    )
