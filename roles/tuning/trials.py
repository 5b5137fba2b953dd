"""What was tried in one search, what it cost, and when there is no more to spend.

Probes begin from the same model with the same samples, so none is made twice; until one is kept,
which is training: what was tried before is compared with nothing that comes later, and its
iterations cost nothing. The budget is a share of the seconds that the training takes without
probes: those so far, and what is left at the fastest seconds per iteration that was measured. So
the budget shrinks when faster groups are found; it is asked before each probe, and the seconds that
are left are the probe's limit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from roles.tuning.choices import Choices, Setting, Trial
from roles.tuning.judgement import LEAST_IN, THRESHOLD, judged, mean

FEWEST = 3  # iterations that tell how long one takes
ROSE = 10.0  # times the first loss: such a probe diverges, though its numbers are finite still
ROUNDS = 2  # iterations of each group in a probe, at least


class Lab(Protocol):
    """Where settings are tried: the training cluster, or a model of one."""

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        """Train so, from the model that is kept, for `iterations` or `seconds`, whichever is first
        (0: no limit). If it is to be `kept` and its loss falls by such a part (0: does not rise),
        the model that it leaves is the one that is kept."""
        ...


class SpentUp(Exception):
    """The budget has not enough left for another probe."""


class Trials:
    """Of one search in a run with `left` iterations to go, that trained for `trained` seconds and
    stood still for `paused` ones; `known` are seconds per iteration of earlier searches, by groups.
    `batch` is the run's: with another, an iteration is taken to last as much longer, and says
    nothing of how long the run's last. `lately`: seconds of an iteration since the last search, in
    training itself."""

    def __init__(
        self,
        lab: Lab,
        choices: Choices,
        left: int,
        *,
        trained: float = 0.0,
        paused: float = 0.0,
        known: Mapping[int, float] | None = None,
        batch: int = 0,
        lately: float = math.inf,
        tell: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._lab = lab
        self._choices = choices
        self.left = left
        self.tell = tell
        self._trained = trained
        self._paused = paused
        self._lately = lately
        self.length = choices.length(left)
        self.batch = batch
        self._planned = choices.probes(cold=not known)
        self.spent = 0.0
        self.kept = 0  # iterations of probes that were training
        self.kept_seconds = 0.0
        self._comparable = 0  # probes before the first that began from the present model
        self.made: list[tuple[Setting, Trial]] = []
        self._found: dict[tuple[Setting, int], Trial] = {}
        self._known = dict(known or {})
        self.fallen: list[Setting] = []  # with which training diverged, though their probes did not
        self._beside = 0.0  # the longest that a probe took beside its iterations at their pace

    def __repr__(self) -> str:
        return (
            f"<{len(self.made)} probes, {self.spent:.3g} s spent, {self.left_to_spend:.3g} s left>"
        )

    @property
    def iteration_seconds(self) -> dict[int, float]:
        """Seconds per iteration, by groups, as the last probe of each showed."""
        return dict(self._known)

    @property
    def left_to_spend(self) -> float:
        """Seconds; infinite before anything was measured."""
        return self.left_at(1.0)

    def left_at(self, part: float) -> float:
        """The same, if training takes this part of the seconds per iteration that probes show."""
        if not self._known:
            return float("inf")
        training = self._trained + self.left * min(part * min(self._known.values()), self._lately)
        return self._choices.budget * training - self._paused - self.spent

    @property
    def spare(self) -> float:
        """Seconds that nothing planned needs: what a tie may cost. Groups that were not measured
        may be twice as fast, which would halve the budget."""
        if not self._known:
            return float("inf")
        factor = 1.0 if set(self._choices.groups) <= set(self._known) else 0.5
        training = self._trained + self.left * min(factor * min(self._known.values()), self._lately)
        ahead = max(0, self._planned - len(self.made)) * self.length * max(self._known.values())
        return self._choices.budget * training - self._paused - self.spent - ahead

    def cost(self, setting: Setting, iterations: int) -> float:
        """Seconds that such a probe will take, as far as is known: nothing for one that was
        made."""
        iterations = _whole(iterations, setting.groups)
        if (setting, iterations) in self._found:
            return 0.0
        return self.cost_of_another(setting.groups, iterations) * (
            setting.batch / self.batch if self.batch else 1.0
        )

    def cost_of_another(self, groups: int, iterations: int = 0) -> float:
        """Seconds that a new probe with so many groups will take, of the usual length or so many
        iterations."""
        nearest = min(self._known, key=lambda known: abs(known - groups), default=0)
        return (
            _whole(iterations or self.length, groups) * self._known.get(nearest, 0.0) + self._beside
        )

    async def of(
        self, setting: Setting, iterations: int = 0, *, kept: bool = False, falls: float = THRESHOLD
    ) -> Trial:
        """The probe of a setting, of the usual length or so many iterations; made once. SpentUp: it
        costs too much."""
        iterations = _whole(iterations or self.length, setting.groups)
        if (setting, iterations) in self._found:
            return self._found[setting, iterations]
        left = self.left_to_spend
        if self.cost(setting, iterations) > left:
            raise SpentUp
        limit = left - self._beside if self._known else 0.0
        trial = _told(await self._lab.probe(setting, iterations, limit, kept=kept, falls=falls))
        self.made.append((setting, trial))
        self._count(trial)
        if trial.losses:
            self._beside = max(
                self._beside, trial.cost - len(trial.losses) * trial.iteration_seconds
            )
        tells = setting.batch == self.batch and len(trial.losses) >= FEWEST
        if tells and not (trial.diverged and setting.groups in self._known):
            self._known[setting.groups] = trial.iteration_seconds
        if not trial.diverged and len(trial.losses) < min(iterations, LEAST_IN):
            raise SpentUp
        if not trial.kept:
            self._found[setting, iterations] = trial
        return trial

    def _count(self, trial: Trial) -> None:
        self.spent += trial.cost
        if trial.kept:
            self.spent -= trial.seconds
            self._trained += trial.seconds
            self.left -= len(trial.losses)
            self.kept += len(trial.losses)
            self.kept_seconds += trial.seconds
            self._comparable = len(self.made)
            self._found.clear()

    @property
    def comparable(self) -> Sequence[tuple[Setting, Trial]]:
        """The probes that began from the present model."""
        return self.made[self._comparable :]

    def longest(self, setting: Setting) -> Trial | None:
        """The longest probe of a setting that can be compared; one that diverged, if training
        would."""
        found = [trial for made, trial in self.comparable if made == setting]
        longest = max(found, key=lambda trial: len(trial.losses), default=None)
        if any(setting.as_bold_as(fallen) for fallen in self.fallen):
            return dataclasses.replace(longest or Trial((), 0.0), diverged=True)
        return longest

    def diverges(self, setting: Setting) -> bool:
        """As far as is known."""
        trial = self.longest(setting)
        return trial is not None and trial.diverged

    def fell(self, setting: Setting) -> None:
        """Training diverged with it, though its probe did not: so it would with all that is as
        bold."""
        self.fallen.append(setting)


def _told(trial: Trial) -> Trial:
    """As it is judged: see ROSE."""
    rose = bool(trial.losses) and 0 < ROSE * trial.losses[0] < mean(judged(trial))
    return dataclasses.replace(trial, diverged=trial.diverged or rose)


def _whole(iterations: int, groups: int) -> int:
    """So many that each group ends as many: groups that begin together end together, and a probe
    that ends between two of their turns would count one turn too much. At least ROUNDS of each: the
    losses of the first round are those of the model that all begin with, whatever the setting."""
    return max(ROUNDS, -(-iterations // groups)) * groups
