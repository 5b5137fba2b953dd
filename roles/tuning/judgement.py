"""Which of two probes learnt better, and whether that is clear. Plain numbers.

A probe is judged by the losses of its last half, 50 at most (Omnivore, E.3: the loss of the past 50 iterations). One is
clearly worse if its mean is more than 5 % above the other's (E.3) and more than two standard errors of the difference.
The threshold alone would take the noise of small batches for a winner; the test alone would prolong probes for
differences that nobody feels. Two probes with as many groups saw the same samples in the same order, so their losses
are compared pair by pair: what is hard for both is no noise. Probes with other groups are compared after equal seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pvariance

from roles.tuning.choices import Trial

WINDOW = 50
THRESHOLD = 0.05
ERRORS = 2.0
LEAST_IN = 8  # iterations that must have ended in the seconds after which two probes are compared


def judged(trial: Trial, iterations: int | None = None) -> tuple[float, ...]:
    """The losses that count, of all iterations or the first so many of them; none of a probe that diverged."""
    if trial.diverged or not trial.losses:
        return ()
    losses = trial.losses[:iterations]
    return losses[len(losses) // 2 :][-WINDOW:]


def ended_in(trial: Trial, seconds: float) -> int:
    """How many iterations had ended after so many seconds."""
    return int(min(len(trial.losses), trial.iterations_in(seconds) + 1e-9))


def mean(losses: Sequence[float]) -> float:
    """Infinite for none: what diverged is worse than all."""
    return fmean(losses) if losses else math.inf


def clearly_worse(one: Sequence[float], other: Sequence[float], *, paired: bool) -> bool:
    """Is `one` clearly worse than `other`? `paired`: the losses are of the same samples, position by position."""
    if not one or not other:
        return bool(other)
    gap = mean(one) - mean(other)
    if gap <= THRESHOLD * abs(mean(other)):
        return False
    if paired and len(one) == len(other):
        differences = [a - b for a, b in zip(one, other, strict=True)]
        error = math.sqrt(pvariance(differences) / len(differences))
    else:
        error = math.sqrt(pvariance(one) / len(one) + pvariance(other) / len(other))
    return gap > ERRORS * error
