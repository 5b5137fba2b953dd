"""Rules for the learning rate and the weight decay when the batch grows by a factor k.

Krizhevsky, One weird trick for parallelizing convolutional neural networks (section 5); Iandola et
al., FireCaffe (section 7.2). Both found that 8 times the rate works for 8 times the batch, which
theory does not predict. Therefore this module does not choose between the rules.
"""

from __future__ import annotations

import math


def linear(rate: float, decay: float, k: float) -> tuple[float, float]:
    """Return (k rate, decay). This worked best for AlexNet up to batch 2048 (One weird trick,
    section 5). FireCaffe did it for NiN: 0.01 at batch 256, 0.04 at 1024.

    The total decay is rate * decay, so the decay stays.
    """
    _check(k)
    return k * rate, decay


def square_root(rate: float, decay: float, k: float) -> tuple[float, float]:
    """Return (sqrt(k) rate, decay'). This keeps the variance of the mean gradient.

    One new decay step equals k old ones: 1 - rate' decay' = (1 - rate decay)^k, so decay' is nearly
    sqrt(k) decay (One weird trick, section 5).
    """
    _check(k)
    grown = math.sqrt(k) * rate
    if not rate * decay < 1:
        raise ValueError(f"rate * decay is {rate * decay:g}, expected less than 1")
    shrink = -math.expm1(k * math.log1p(-rate * decay))
    return grown, shrink / grown if grown else decay


def _check(k: float) -> None:
    if not 0 < k < math.inf:
        raise ValueError(f"k is {k:g}, expected a positive number: new batch / old batch")
