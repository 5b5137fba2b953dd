"""The probes of one search, their costs, and the limit of the budget.

Probes start from the same model with the same samples, so no probe is made twice. That changes when
a probe is kept, which makes it training. Earlier probes are then not compared with later ones. The
iterations of a kept probe cost nothing.

The budget is a share of the seconds that the training takes without probes: the seconds so far, and
the iterations that are left at the fastest pace that was measured. So the budget shrinks when
faster groups are found. It is checked before each probe, and the seconds that are left limit the
probe.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from roles.tuning.choices import Choices, Setting, Trial
from roles.tuning.judgement import LEAST_IN, THRESHOLD, judged, mean

FEWEST = 3  # iterations that a measurement of the pace needs
ROSE = 10.0  # times the first loss: such a probe diverges, though its losses are still finite
ROUNDS = 2  # iterations of each group in a probe, at least


class Lab(Protocol):
    """A place to try settings: the training cluster, or a model of one. `seconds`: seconds of an
    iteration by groups, as far as they are predicted."""

    @property
    def seconds(self) -> Mapping[int, float]: ...

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        """Train with `setting`, from the kept model, for `iterations` or `seconds`, whichever ends
        first (0 seconds: no limit).

        If `kept` is set and the loss falls by the fraction `falls` (0: does not rise), the model at
        the end of the probe becomes the kept model.
        """
        ...


class SpentUp(Exception):
    """The rest of the budget does not pay for another probe."""


class Trials:
    """The probes of one search in a run with `left` iterations to go.

    The run has trained for `trained` seconds and stood still for `paused` seconds. `known` are the
    seconds per iteration from earlier searches, by groups. `batch` is the run's batch. An iteration
    with another batch is expected to take longer in proportion, and does not count for the pace of
    the run. `lately`: seconds of an iteration of the training since the last search.
    """

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
        self._comparable = 0  # probes before the first that started from the present model
        self.made: list[tuple[Setting, Trial]] = []
        self._found: dict[tuple[Setting, int], Trial] = {}
        self._known = dict(known or {})
        # settings with which training diverged, though their probes did not
        self.fallen: list[Setting] = []
        # the most seconds that a probe took in addition to its iterations at their pace
        self._beside = 0.0

    def __repr__(self) -> str:
        return (
            f"<{len(self.made)} probes, {self.spent:.3g} s spent, {self.left_to_spend:.3g} s left>"
        )

    @property
    def iteration_seconds(self) -> dict[int, float]:
        """Seconds per iteration, by groups: as predicted, or else from the last probe.

        The prediction is of a long run, and fits the probes. In a short probe, groups that began
        together are in each other's way.
        """
        return self._known | dict(self._lab.seconds)

    @property
    def left_to_spend(self) -> float:
        """Seconds of the budget that are left; infinite before any measurement."""
        return self.left_of(1.0)

    def left_of(self, part: float) -> float:
        """Seconds that are left of this part of the budget."""
        known = self.iteration_seconds
        if not known:
            return float("inf")
        training = self._trained + self.left * min(*known.values(), self._lately)
        return part * self._choices.budget * training - self._paused - self.spent

    @property
    def spare(self) -> float:
        """Seconds that no planned probe needs, so that a tie may use them.

        Groups that were not measured may be twice as fast, which would halve the budget.
        """
        known = self.iteration_seconds
        if not known:
            return float("inf")
        factor = 1.0 if set(self._choices.groups) <= set(known) else 0.5
        training = self._trained + self.left * min(factor * min(known.values()), self._lately)
        ahead = max(0, self._planned - len(self.made)) * self.length * max(known.values())
        return self._choices.budget * training - self._paused - self.spent - ahead

    def cost(self, setting: Setting, iterations: int) -> float:
        """Seconds that this probe is expected to take; 0 if it was made already."""
        iterations = _whole(iterations, setting.groups)
        if (setting, iterations) in self._found:
            return 0.0
        return self.cost_of_another(setting.groups, iterations) * (
            setting.batch / self.batch if self.batch else 1.0
        )

    def cost_of_another(self, groups: int, iterations: int = 0) -> float:
        """Seconds that a new probe with `groups` groups will take, of the usual length or of
        `iterations`."""
        seconds = self.iteration_seconds
        nearest = min(seconds, key=lambda known: abs(known - groups), default=0)
        return _whole(iterations or self.length, groups) * seconds.get(nearest, 0.0) + self._beside

    async def of(
        self, setting: Setting, iterations: int = 0, *, kept: bool = False, falls: float = THRESHOLD
    ) -> Trial:
        """The probe of a setting, of the usual length or of `iterations`. It is made once. Raises
        SpentUp if it costs more than is left."""
        iterations = _whole(iterations or self.length, setting.groups)
        if (setting, iterations) in self._found:
            return self._found[setting, iterations]
        left = self.left_to_spend
        if self.cost(setting, iterations) > left:
            raise SpentUp
        limit = left - self._beside if self._known else 0.0
        trial = _told(await self._lab.probe(setting, iterations, limit, kept=kept, falls=falls))
        self.made.append((setting, trial))
        if trial.why:
            self.tell(trial.why)
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
        """The probes that started from the present model."""
        return self.made[self._comparable :]

    def longest(self, setting: Setting) -> Trial | None:
        """The longest comparable probe of a setting, None if there was none. It counts as diverged
        if the setting is as bold as one with which training diverged."""
        found = [trial for made, trial in self.comparable if made == setting]
        longest = max(found, key=lambda trial: len(trial.losses), default=None)
        if any(setting.as_bold_as(fallen) for fallen in self.fallen):
            return dataclasses.replace(longest or Trial((), 0.0), diverged=True)
        return longest

    def diverges(self, setting: Setting) -> bool:
        """True if the setting is known to diverge."""
        trial = self.longest(setting)
        return trial is not None and trial.diverged

    def fell(self, setting: Setting) -> None:
        """Note that training diverged with the setting though its probe did not. All settings that
        are as bold count as diverging from now on."""
        self.fallen.append(setting)

    def forgive(self, setting: Setting) -> None:
        """Forget that training diverged with the setting: the model has learnt since then."""
        self.fallen.remove(setting)


def _told(trial: Trial) -> Trial:
    """The trial as it is judged: a loss that rose by ROSE counts as diverged."""
    rose = bool(trial.losses) and 0 < ROSE * trial.losses[0] < mean(judged(trial))
    return dataclasses.replace(trial, diverged=trial.diverged or rose)


def _whole(iterations: int, groups: int) -> int:
    """Round up to whole rounds, so that each group finishes the same number of iterations.

    Groups that start together end together, so a probe that ends between two of their turns would
    count one turn too many. There are at least ROUNDS rounds: the losses of the first round are
    those of the model that all groups start with, whatever the setting.
    """
    return max(ROUNDS, -(-iterations // groups)) * groups
