"""The values from which the tuner may choose, the settings that it tries, and its choice. Plain
data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from roles.tuning.compensation import Compensation
from roles.tuning.momentum import at_whole_gain, can_compensate, compensated, subtracted

# iterations of a probe without a configured length; at most 50 are judged (Omnivore, E.3)
LEAST = 10
MOST = 50
# iterations before the first probe with another batch: they are slower than all later ones
WARM = 3
AS_FAST = 1.05  # times the fastest seconds per iteration
TENTH = 0.1  # the step of the grid of learning rates


@dataclass(frozen=True)
class Setting:
    """One point of the trade-off: compute groups, explicit momentum, base learning rate, and the
    images in a group's batch (0: the batch of the run)."""

    groups: int
    momentum: float
    base_lr: float
    batch: int = 0

    def __str__(self) -> str:
        return f"groups {self.groups}, momentum {self.momentum:g}, base_lr {self.base_lr:.4g}"

    def but(self, **values: float) -> Setting:
        """The same setting with other values.

        Momentum and rate are rounded to six digits. Rates that differ by rounding only (a solver's
        are float32) thus become equal.
        """
        found = dataclasses.replace(self, **values)  # type: ignore[arg-type]
        return Setting(
            found.groups, float(f"{found.momentum:.6g}"), float(f"{found.base_lr:.6g}"), found.batch
        )

    @property
    def step(self) -> float:
        """How far a gradient moves the model in the long run, as a multiple of the gradient."""
        return self.base_lr / (1.0 - self.momentum)

    def as_bold_as(self, other: Setting) -> bool:
        """True if this setting is expected to diverge wherever `other` diverges: it has no fewer
        groups, no shorter step, at once or in the long run, and no larger batch."""
        nearly = 1.0 - 1e-6
        step = self.step >= nearly * other.step and self.base_lr >= nearly * other.base_lr
        return step and self.groups >= other.groups and self.batch <= other.batch


def alike(setting: Setting, groups: int) -> Setting | None:
    """The setting with which `groups` groups learn as much in an iteration as the groups of
    `setting` do, if the net bears it: the gain of a gradient, base_lr / (1 - momentum), and the
    mean delay of its effect stay (`momentum.at_whole_gain`). None if there is none.
    """
    momentum = at_whole_gain(setting.momentum, groups - setting.groups)
    if momentum is None:
        return None
    rate = setting.base_lr * (1.0 - momentum) / (1.0 - setting.momentum)
    return setting.but(groups=groups, momentum=momentum, base_lr=rate)


def careful(setting: Setting, groups: int) -> Setting:
    """The setting for as many groups at the same rate: the total momentum stays, and the gain of a
    gradient falls as the groups grow (`momentum.compensated`)."""
    late = groups / setting.groups - 1.0
    return setting.but(groups=groups, momentum=compensated(setting.momentum, late))


def most_careful(setting: Setting, groups: int) -> Setting:
    """The same with still less momentum and gain (`momentum.subtracted`)."""
    late = groups / setting.groups - 1.0
    return setting.but(groups=groups, momentum=subtracted(setting.momentum, late))


def of_gain(setting: Setting, share: float) -> Setting:
    """The setting with this share of the gain of a gradient, base_lr / (1 - momentum). Momentum
    falls first; where no momentum is left, the rate falls too."""
    momentum = max(0.0, 1.0 - (1.0 - setting.momentum) / share)
    return setting.but(momentum=momentum, base_lr=share * setting.step * (1.0 - momentum))


@dataclass(frozen=True)
class Trial:
    """The result of a probe of a setting: the `losses` of its iterations, in the order in which
    they ended, and the `seconds` that they took.

    `cost`: seconds for which training stood still for the probe. `pace`: seconds of an iteration in
    the later half of the probe; 0: take the mean of the whole probe. `kept`: the probe was
    training, and later probes start from the model that it left. `why`: how its seconds differ from
    the predicted ones; "" if they do not.
    """

    losses: tuple[float, ...]
    seconds: float
    diverged: bool = False
    cost: float = 0.0
    pace: float = 0.0
    kept: bool = False
    why: str = ""

    @property
    def iteration_seconds(self) -> float:
        """Mean seconds of an iteration once all groups are under way; infinite if no iteration
        ended."""
        return self.pace or self.seconds / len(self.losses) if self.losses else math.inf

    def iterations_in(self, seconds: float) -> float:
        """The number of such iterations that fit into `seconds`; infinite if they take no time."""
        return seconds / self.iteration_seconds if self.iteration_seconds else math.inf


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The values that the tuner may choose. A value whose tuple (`groups`, `momenta`, `rates`,
    `batches`) is empty stays as it is.

    `groups` ascend from 1. `rates` are factors of the learning rate that the run starts with.
    `batches` are images. A probe has `probe_iterations`; 0: as many as the budget allows, 10 to 50.
    A probe that shows no clear winner is repeated at most `prolonged` times, each time with twice
    as many. All probes together take at most `budget` of the seconds of the training. The search is
    repeated after `epoch_iterations` (0: as many as the budget needs). `last`: the iterations of
    the run. `compensation`: momentum follows the number of groups by itself; None: it does not.
    """

    groups: tuple[int, ...] = ()
    momenta: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()
    batches: tuple[int, ...] = ()
    probe_iterations: int = 0
    epoch_iterations: int = 0
    budget: float = 0.1
    prolonged: int = 2
    last: int = 0
    compensation: Compensation | None = None

    def in_groups(self, setting: Setting, groups: int) -> Setting:
        """The same setting with another number of groups, and with the momentum that the run then
        has."""
        if self.compensation is None:
            return setting.but(groups=groups)
        return setting.but(groups=groups, momentum=self.compensation.momentum(groups))

    def by_rule(self, setting: Setting) -> list[Setting]:
        """The setting with each number of groups for which the rule of momentum has one, if groups
        are all that is chosen and momentum follows them; else none."""
        found = self.compensation
        if not self.groups or self.momenta or self.rates or self.batches or found is None:
            return []
        return [
            self.in_groups(setting, groups)
            for groups in self.groups
            if can_compensate(found.suited, groups - 1)
        ]

    def possible(self, wanted: Setting, now: Setting) -> Setting:
        """The wanted setting, with the values of `now` for all that may not be chosen. A wanted
        batch of 0 is not known; the learning rate is chosen together with the batch."""
        batched = bool(self.batches) and wanted.batch > 0
        chosen = {"momentum": self.momenta, "base_lr": self.rates or batched, "batch": batched}
        values = {name: getattr(wanted, name) for name, may_be in chosen.items() if may_be}
        may_regroup = wanted.groups <= max(self.groups, default=0)
        return self.in_groups(now, wanted.groups if may_regroup else now.groups).but(**values)

    def of(self, workers: int, *, follows: bool) -> Choices:
        """The same choices in a run with so many workers. Without `follows`, momentum does not
        follow the groups: a request has named it."""
        return dataclasses.replace(
            self,
            groups=tuple(each for each in self.groups if each <= workers),
            compensation=self.compensation if follows else None,
        )

    @property
    def any(self) -> bool:
        """True if there is something to choose."""
        return bool(self.groups or self.momenta or self.rates or self.batches)

    @property
    def per_groups(self) -> int:
        """The number of probes of the grid at one number of groups."""
        return max(1, len(self.momenta)) * (2 if self.rates else 1)

    def probes(self, *, cold: bool) -> int:
        """The number of probes of a cold start, or of an epoch's search, without ties and without
        widened grids."""
        per_groups = self.per_groups
        others = max(0, len(self.batches) - 1)
        if not cold:
            # half as many groups, and twice as many
            around = 3 if self.groups and not self.momenta else 1
            return per_groups * around + (2 if self.momenta else 0) + others
        count = max(1, len(self.rates)) + others
        if self.groups:
            return count + (len(self.groups) - 1) * per_groups
        return count + (per_groups - 1 if self.momenta else 0)

    def length(self, left: int) -> int:
        """The number of iterations of a probe in a run that has `left` iterations to go.

        Half of the budget is kept for events that are not known in advance: faster groups, which
        make the budget smaller, ties, and edges of grids.
        """
        paid = int(self.budget * left / (2 * self.probes(cold=True)))
        return self.probe_iterations or max(LEAST, min(paid, MOST))

    def is_short(self, left: int) -> bool:
        """True if a run with `left` iterations to go is too short for the shortest probes of a cold
        start."""
        return self.budget * left < self.probes(cold=True) * self.length(left)

    def epoch(self, length: int) -> int:
        """The number of training iterations between two searches: enough to pay for the next search
        (Omnivore, F.7: ten times as long as the optimizer ran)."""
        return self.epoch_iterations or math.ceil(length * self.probes(cold=False) / self.budget)


def in_words(groups: int) -> str:
    """The number of groups in words: "1 group", "4 groups"."""
    return f"{groups} group{'s'[: groups != 1]}"


def counts_up_to(workers: int) -> tuple[int, ...]:
    """The numbers of groups to try: 1, 2, 4, ... and each worker in a group of its own (Omnivore,
    E.4)."""

    def doubled() -> Iterator[int]:
        groups = 1
        while groups < workers:
            yield groups
            groups *= 2
        yield workers

    return tuple(doubled())


@dataclass(frozen=True)
class Chosen:
    """The result of a search.

    `saturated`: the smallest number of groups within 5 % of the fastest; 0: not measured.
    `next_groups`: the number of groups with which the search of the next epoch starts.
    `iteration_seconds`: by groups (the measured hardware efficiency). `spent`: seconds of its
    probes. `tried`: every probe. `by_theory`: no grid was made.
    """

    setting: Setting
    why: str
    saturated: int = 0
    next_groups: int = 0
    iteration_seconds: Mapping[int, float] = field(default_factory=dict)
    spent: float = 0.0
    tried: tuple[tuple[Setting, Trial], ...] = ()
    by_theory: bool = False
