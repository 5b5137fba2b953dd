"""The settings of a solver that Caffe's files lack: those of its optimizer, a schedule, and an
average of the weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from nets.definition.params import ParamSpec
from nets.definition.rate_schedule import RateSchedule

ALL = "all"
WEIGHTS = "weights"  # parameters with at least two axes: neither biases nor the scales of norms


@dataclass(frozen=True)
class OptimizerSettings:
    """The settings of an optimizer: exact numbers, decay of weights only, rates by layer.

    `decays`: the parameters with weight decay, ALL or WEIGHTS. `rates`: (pattern of layers, factor
    of their rate); the first pattern that fits counts. `numbers`: numbers of the update rule in
    full precision, which count before those of the file.
    """

    decays: str = ALL
    rates: tuple[tuple[str, float], ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def adjusted(self, param: ParamSpec) -> ParamSpec:
        """Return the parameter with the multipliers of its rate and decay under these settings."""
        if param.keep is not None:
            return param
        decays = self.decays == ALL or is_matrix(param)
        fitting = (factor for pattern, factor in self.rates if fnmatchcase(param.layer, pattern))
        return replace(
            param,
            lr_mult=param.lr_mult * next(fitting, 1.0),
            decay_mult=param.decay_mult if decays else 0.0,
        )


def is_matrix(param: ParamSpec) -> bool:
    """Whether a learned parameter has at least two axes: the weights of a layer, not a bias or the
    scale of a norm."""
    return param.keep is None and len(param.shape) > 1


@dataclass(frozen=True)
class WeightAverage:
    """The exponential moving average of a model's parameters.

    After every `every`-th update it becomes decay * average + (1 - decay) * w. The first of these
    updates copies w, as in PyTorch. With `ramp`, the decay of update n (from 1) is at most n / (n +
    9), so that the first weights are forgotten sooner. With `power`, the decay of update n of N is
    `decay` * (n / N) ^ power. With `lookahead`, w then becomes the average, which begins with the
    first weights and not with a copy (Zhang et al. 2019, Lookahead Optimizer: k steps forward, 1
    step back).
    """

    decay: float
    ramp: bool = False
    every: int = 1
    power: float = 0.0
    lookahead: bool = False

    def decay_at(self, iteration: int, last: int) -> float | None:
        """Return the decay of the update of `iteration` (from 0) of `last`. None if the average
        stays as it is."""
        update = iteration + 1
        if update % self.every:
            return None
        if update == self.every and not self.lookahead:
            return 0.0
        passed = min(1.0, update / max(1, last))
        decay = self.decay * math.pow(passed, self.power)
        return min(decay, update / (update + 9)) if self.ramp else decay


@dataclass(frozen=True)
class SolverExtras:
    """The settings of a solver that Caffe's files lack.

    `schedule` replaces the file's lr_policy, or adds a warm-up to it. `average`: the average of the
    parameters that is kept for tests and checkpoints, if any.
    """

    schedule: RateSchedule | None = None
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    average: WeightAverage | None = None
