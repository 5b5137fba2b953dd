"""Which of two probes learnt better, and whether that is clear. Plain numbers.

A probe is judged by the losses of its last half, 50 at most (Omnivore, E.3: the loss of the past 50
iterations). One is clearly worse if its mean is more than 5 % above the other's (E.3) and a rank
test says so too, by two standard deviations. The threshold alone would take the noise of small
batches for a winner; the test alone would prolong probes for differences that nobody feels. Ranks,
because a loss that explodes varies as much as it is large: by its variance it would tie with
anything.

Two probes with as many groups saw the same samples in the same order, so their losses are compared
pair by pair (Wilcoxon's signed ranks): what is hard for both is no noise. Probes with other groups
are compared after equal seconds, each loss with each (Mann and Whitney).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from roles.tuning.choices import Trial

WINDOW = 50
THRESHOLD = 0.05
DEVIATIONS = 2.0
RISES = 1.5
LEAST_IN = 8  # iterations that must have ended in the seconds after which two probes are compared


def judged(trial: Trial, iterations: int | None = None) -> tuple[float, ...]:
    """The losses that count, of all iterations or the first so many of them; none of a probe that
    diverged."""
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


def rises(trial: Trial) -> bool:
    """Does the loss go up again at the end of a probe? Such a setting may be on its way to diverge:
    too few losses are high yet to make it clearly worse. Of the losses that count the second half
    is 1.5 times the first."""
    losses = judged(trial)
    middle = len(losses) // 2
    return middle > 0 and mean(losses[middle:]) > RISES * mean(losses[:middle])


def clearly_worse(one: Sequence[float], other: Sequence[float], *, paired: bool) -> bool:
    """Is `one` clearly worse than `other`? `paired`: the losses are of the same samples, position
    by position."""
    if not one or not other:
        return bool(other)
    gap = mean(one) - mean(other)
    if gap <= THRESHOLD * abs(mean(other)):
        return False
    deviations = (
        _signed_ranks(one, other)
        if paired and len(one) == len(other)
        else _each_with_each(one, other)
    )
    return deviations > DEVIATIONS


def _signed_ranks(one: Sequence[float], other: Sequence[float]) -> float:
    """By how many standard deviations the ranks of the positive differences are above what chance
    gives."""
    differences = sorted((a - b for a, b in zip(one, other, strict=True) if a != b), key=abs)
    n = len(differences)
    above = sum(rank for rank, difference in enumerate(differences, start=1) if difference > 0)
    return (above - n * (n + 1) / 4) / math.sqrt(n * (n + 1) * (2 * n + 1) / 24)


def _each_with_each(one: Sequence[float], other: Sequence[float]) -> float:
    """By how many standard deviations more pairs have the higher loss in `one` than chance
    gives."""
    n = len(one)
    m = len(other)
    above = sum((a > b) + (a == b) / 2 for a in one for b in other)
    return (above - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
