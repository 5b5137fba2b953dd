"""The comparison of two probes: which of them learnt better, and whether that is clear. Plain
numbers.

A probe is judged by the losses of its last half, at most 50 (Omnivore, E.3: the loss of the past 50
iterations). A probe is clearly worse if its mean loss is more than 5 % above the other's (E.3), and
a rank test confirms it by two standard deviations. The threshold alone would mistake the noise of
small batches for a winner. The test alone would prolong probes for differences too small to matter.
Ranks are used because the variance of an exploding loss is as large as the loss. A test by variance
would find that such a loss ties with any other.

Two probes with the same number of groups saw the same samples in the same order, so their losses
are compared pair by pair (Wilcoxon's signed ranks). A batch that is hard for both then adds no
noise. Probes with different numbers of groups are compared after equal seconds, each loss with each
(Mann and Whitney).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from roles.tuning.choices import Setting, Trial

WINDOW = 50
THRESHOLD = 0.05
DEVIATIONS = 2.0
RISES = 1.5
LEAST_IN = 8  # iterations that must have ended in each of two probes that are compared by seconds


def judged(trial: Trial, iterations: int | None = None) -> tuple[float, ...]:
    """The losses that count, of all iterations or of the first `iterations`; none if the probe
    diverged."""
    if trial.diverged or not trial.losses:
        return ()
    losses = trial.losses[:iterations]
    return losses[len(losses) // 2 :][-WINDOW:]


def ended_in(trial: Trial, seconds: float) -> int:
    """The number of iterations that had ended after `seconds`."""
    return int(min(len(trial.losses), trial.iterations_in(seconds) + 1e-9))


def mean(losses: Sequence[float]) -> float:
    """The mean of the losses; infinite for no losses, so that a diverged probe is worse than all
    others."""
    return fmean(losses) if losses else math.inf


def rises(trial: Trial) -> bool:
    """True if the loss goes up again at the end of a probe.

    Such a setting may be about to diverge, while too few losses are high to make it clearly worse.
    The loss rises if the mean of the second half of the losses that count is more than 1.5 times
    the mean of the first half.
    """
    losses = judged(trial)
    middle = len(losses) // 2
    return middle > 0 and mean(losses[middle:]) > RISES * mean(losses[:middle])


def holds(trial: Trial) -> bool:
    """True if no observation speaks against training with this setting: its loss goes down, or is
    not far above the loss of an untrained model."""
    losses = judged(trial)
    return bool(losses) and not rises(trial) and mean(losses) <= RISES * trial.losses[0]


def stays_low(trial: Trial) -> bool:
    """True if the setting holds and its last losses are not far above the first one.

    The mean of the later half may be low although the last quarter of the losses is high. Such a
    setting is not taken as the better one of two.
    """
    last = trial.losses[-(len(trial.losses) // 4 or 1) :]
    return holds(trial) and mean(last) <= RISES * trial.losses[0]


def best_of(ranked: Sequence[Setting], trials: Mapping[Setting, Trial]) -> Setting:
    """The first of the settings, ranked by their losses, whose loss stays low. The first of all if
    no loss does. A setting whose loss rises at the end may have the lowest mean by then."""
    return next((each for each in ranked if stays_low(trials[each])), ranked[0])


def clearly_worse(one: Sequence[float], other: Sequence[float], *, paired: bool) -> bool:
    """True if `one` is clearly worse than `other`. `paired`: the losses at one position are of the
    same samples."""
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
    """By how many standard deviations the rank sum of the positive differences exceeds its
    expectation by chance."""
    differences = sorted((a - b for a, b in zip(one, other, strict=True) if a != b), key=abs)
    n = len(differences)
    above = sum(rank for rank, difference in enumerate(differences, start=1) if difference > 0)
    return (above - n * (n + 1) / 4) / math.sqrt(n * (n + 1) * (2 * n + 1) / 24)


def _each_with_each(one: Sequence[float], other: Sequence[float]) -> float:
    """By how many standard deviations the number of pairs with the higher loss in `one` exceeds its
    expectation by chance."""
    n = len(one)
    m = len(other)
    above = sum((a > b) + (a == b) / 2 for a in one for b in other)
    return (above - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
