"""The statistics of a model server's gradients, momentum and noise: the question and the answer."""

from __future__ import annotations

import math

from roles.tuning.momentum import expected
from roles.tuning.ratio import Measured
from roles.tuning.watch import GradientWatch
from runtime import Message, message


@message
class GetGradientStatistics(Message):
    """Any actor asks a model server, at any time, for the statistics of its gradients. Answered
    with GradientStatistics, as soon as `after` iterations are in the server's model."""

    after: int = 0


@message
class GradientStatistics(Message):
    """Answer, when `iteration` iterations are in the server's model. A value is NaN where it is
    unknown.

    `momentum` is the solver's. The implicit momentum is measured in three ways. `groups`: by the
    number of groups that the last `updates` of single layers came from (1 - 1/g). `staleness`: by
    the staleness of these updates. `gradients`: by the gradients themselves, with its standard
    error. `noise` is the gradient noise scale in images, with its standard error. Uncertain values
    are sent too: their error is large.
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
    """The statistics so far; `momentum` is the solver's."""
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
