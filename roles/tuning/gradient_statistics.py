"""What a model server's gradients say of momentum and noise, asked for and answered."""

from __future__ import annotations

import math

from roles.tuning.momentum import expected
from roles.tuning.ratio import Measured
from roles.tuning.watch import GradientWatch
from runtime import Message, message


@message
class GetGradientStatistics(Message):
    """Anybody asks a model server at any time: what do your gradients say of momentum and noise?
    Answered with GradientStatistics, as soon as `after` iterations are in its model."""

    after: int = 0


@message
class GradientStatistics(Message):
    """Answer, NaN where something is unknown, when so many iterations are in the server's model.

    `momentum` is the solver's. The implicit one is told three times: by the number of `groups` that
    the last `updates` of single layers came from (1 - 1/g), by the `staleness` of these, and by the
    `gradients` themselves, with its standard error. `noise` is the gradient noise scale in images,
    with its standard error. What is not sure is told too: its error is large.
    """

    iteration: int
    momentum: float
    updates: int
    groups: float
    staleness: float
    gradients: float
    gradients_error: float
    noise: float
    noise_error: float


def statistics_of(watch: GradientWatch, iteration: int, momentum: float) -> GradientStatistics:
    """What is known by now; `momentum` is the solver's."""
    unknown = Measured(math.nan, math.nan)
    gradients = watch.by_gradients() or unknown
    noise = watch.noise_scale() or unknown
    counted = watch.updates > 0
    return GradientStatistics(
        iteration=iteration,
        momentum=momentum,
        updates=watch.updates,
        groups=expected(watch.groups) if counted else math.nan,
        staleness=watch.by_staleness() if counted else math.nan,
        gradients=gradients.value,
        gradients_error=gradients.error,
        noise=noise.value,
        noise_error=noise.error,
    )
