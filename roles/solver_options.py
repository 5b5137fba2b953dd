"""The sections [train.optimizer], [train.schedule] and [train.ema], which stand for settings of the
solver's file. Only `up` imports this module, since pydantic is slow to import."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from roles.number_types import Epochs, Fraction, NotNegative, Positive
from roles.other_names import EMA, OPTIMIZER, SCHEDULE
from runtime.config.file import Section
from runtime.config.problems import Expected
from runtime.config.sections import Count, Text

Share = Annotated[float, Field(ge=0, le=1), Expected("a number >= 0 and <= 1")]
Falling = Annotated[float, Field(gt=0, lt=1), Expected("a number > 0 and < 1")]


Kind = Literal["SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW", "LARS", "Muon"]


class Optimizer(Section):
    """[train.optimizer]: the update rule, in place of the solver's type (docs/optimizers.md)."""

    other_names = OPTIMIZER

    type: Kind | None = None
    """Default: the solver's `type`. The update rule: `"SGD"`, `"Nesterov"`, `"AdaGrad"`,
    `"RMSProp"`, `"AdaDelta"`, `"Adam"`, `"AdamW"`, `"LARS"` or `"Muon"`. Rate and momentum are
    `train.base_lr` and `train.momentum`."""
    decoupled: bool = False
    """With `"SGD"`, `"Nesterov"` and `"Adam"`: the decay of weights is no part of the gradient, as
    it is with `"AdamW"`. The history then holds gradients, as in PyTorch."""
    weight_decay: NotNegative | None = None
    """Default: the solver's. The decay of weights."""
    decays: Literal["all", "weights"] = "all"
    """`"weights"`: biases and the scales of norms do not decay, only parameters with two axes or
    more."""
    momentum2: Fraction | None = None
    """Default: the solver's. The decay of the mean of squares in `"Adam"`, `"AdamW"`, and for the
    biases of `"Muon"`."""
    epsilon: Positive | None = None
    """Default: the solver's `delta`. The number that keeps divisors above zero."""
    trust: Positive | None = None
    """Default: `0.001`. The trust coefficient of `"LARS"`."""
    clip_norm: Positive | None = None
    """Default: the solver's `clip_gradients`. The largest norm of all gradients together."""


class Schedule(Section):
    """[train.schedule]: the learning rate over time (docs/optimizers.md#schedules). All factors are
    factors of the base_lr."""

    other_names = SCHEDULE

    type: Literal["cosine", "one-cycle", "linear", "step", "plateau", "solver"] = "solver"
    """The rate after the warm-up: it falls along a `"cosine"`, in a straight line (`"linear"`), in
    steps (`"step"`), or after tests without improvement (`"plateau"`). `"one-cycle"` rises and
    falls once. `"solver"` keeps the solver's `lr_policy`."""
    warmup: Annotated[int, Field(ge=0)] | None = None
    """Default: `0`; 0.3 of all iterations for `"one-cycle"`. The iterations in which the rate rises
    to its first value."""
    warmup_epochs: Epochs | None = None
    """The same in epochs."""
    warmup_from: Share | None = None
    """Default: `0.01`; `0.04` for `"one-cycle"`. The factor of the rate in the first iteration of
    the warm-up."""
    end: Share | None = None
    """Default: `0`; `4e-6` for `"one-cycle"`. The last factor of `"cosine"`, `"linear"` and
    `"one-cycle"`."""
    shape: Literal["cosine", "linear"] | None = None
    """Default: `"cosine"`. The curve of `"one-cycle"`: `"cosine"` or `"linear"`."""
    at: Annotated[list[Count], Field(min_length=1)] | None = None
    """The iterations of the steps of `"step"`."""
    at_epochs: Annotated[list[Epochs], Field(min_length=1)] | None = None
    """The same in epochs."""
    every: Count | None = None
    """Iterations between two steps, if they are equally far apart."""
    every_epochs: Epochs | None = None
    """The same in epochs."""
    factor: Falling | None = None
    """Default: `0.1`. The factor of each step of `"step"` and `"plateau"`."""
    by: Text | None = None
    """Default: `"loss"`. The score of the first test net that `"plateau"` compares."""
    patience: Count | None = None
    """Default: `10`. The rate falls after so many tests in a row that are no better than the best
    test before them."""
    min_delta: NotNegative | None = None
    """Default: `0`. A test is better only if its score is better by more than this."""
    least: NotNegative | None = None
    """Default: `0`. The base_lr below which `"plateau"` does not go."""

    @property
    def given(self) -> dict[str, Any]:
        """The keys with a value, other than the type. A default that fits no type is no value."""
        return {
            key: value
            for key in type(self).model_fields
            if key != "type" and (value := getattr(self, key)) is not None
        }


class Ema(Section):
    """[train.ema]: tests, checkpoints and the best model use the exponential moving average of all
    parameters (docs/optimizers.md#averages-of-the-weights)."""

    other_names = EMA

    decay: Fraction = 0.999
    """After each update the average becomes decay * average + (1 - decay) * parameter."""
    ramp: bool = False
    """The decay of update n is at most n / (n + 9)."""
    every: Count = 1
    """Only every so many updates the average changes."""
    power: NotNegative = 0.0
    """The decay of update n of N is multiplied by (n / N) to this power, so that it rises during
    the run."""
    lookahead: bool = False
    """The parameters become the average each time it changes: training goes on from there."""
