"""The choice of the batch with which training makes most progress per second.

An iteration with a batch B is worth `gain` iterations with the present batch (roles.tuning.noise):
little more than one where gradients have hardly any noise, and B divided by the present batch where
they are all noise. The time of an iteration is measured. Worth divided by time is the progress per
second, which Pollux calls goodput (Qiao et al. 2021, equation 6). The learning rate is multiplied
by the gain, as in AdaScale SGD (Johnson et al. 2020), so that an iteration that is worth several
also moves the model as far as several.
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
WORTH = 1.5  # present iterations that one with twice the batch is worth, before a line proposes it


@dataclass(frozen=True)
class Batches:
    """The choice of the batch at the end of a search, with the groups and rates of `chosen`.
    `noise` is the noise scale in images."""

    trials: Trials
    chosen: Chosen
    noise: float

    async def choose(self, batches: Iterable[int]) -> Chosen:
        """Return the choice of the search with the best of these batches, if it is clearly better
        than the present one."""
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
                "the budget has too little left to try every batch: the best so far is taken"
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
        """Seconds of an iteration with this setting; 0 if it diverges.

        The first iterations with another batch allocate memory and do not count.
        """
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
            f"the noise scale is {self.noise:.3g} images: compared with a batch of {now}, "
            f"{', '.join(found) or 'none'}"
        )
        if best == now:
            return f"{told}; none makes {PAYS - 1:.0%} more progress per second"
        left = self.trials.left
        rest = f"the {left} iterations that are left do the work of {left * self._gain(best):.0f}"
        return f"{told}; {best} makes {progress:.3g} times the progress per second, and {rest}"


def _at_best(noise: float, batch: int, now: int) -> float:
    """The largest progress per second that a batch could make: a larger batch that takes no longer,
    or a smaller batch whose time falls in proportion."""
    return gain(noise, batch, now) * max(1.0, now / batch)


def noise_of(found: Iterable[GradientStatistics]) -> float | None:
    """The noise scale in images that the model servers report; the smallest of several, which
    promises least. None if no server knows it well enough yet."""
    known = [each.noise for each in found if each.noise_error <= CLEAR * each.noise]
    return min(known, default=None)


def worth_telling(noise: float, batch: int) -> str:
    """A line for the user about twice the batch, where it may pay; "" where it hardly can."""
    worth = gain(noise, 2 * batch, batch)
    if worth <= WORTH:
        return ""
    return (
        f"the noise scale is {noise:.3g} images: an iteration with twice the batch, "
        f"{2 * batch}, is worth {worth:.3g} "
        f"of the present ones, and pays if it takes less than {worth:.3g} times as long: "
        "train.batch = 'auto' measures this"
    )
