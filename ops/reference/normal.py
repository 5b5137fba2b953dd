"""The cumulative function and the density of the normal distribution, for GELU.

NumPy has no erf. For z >= 0, erfc(z) = t exp(-z^2 + p(t)) with t = 2 / (2 + z), where p is smooth
on [0, 1]: a Chebyshev series of 28 terms gives erfc to 2e-16, relative, also where it is tiny; 12
terms suffice for float32 (the form is from Press et al., "Numerical Recipes", 6.2.2). A test
compares with `math.erfc`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.errors import Array

SERIES = (
    -1.3026537197817094,
    6.4196979235649026e-1,
    1.9476473204185836e-2,
    -9.561514786808631e-3,
    -9.46595344482036e-4,
    3.66839497852761e-4,
    4.2523324806907e-5,
    -2.0278578112534e-5,
    -1.624290004647e-6,
    1.303655835580e-6,
    1.5626441722e-8,
    -8.5238095915e-8,
    6.529054439e-9,
    5.059343495e-9,
    -9.91364156e-10,
    -2.27365122e-10,
    9.6467911e-11,
    2.394038e-12,
    -6.886027e-12,
    8.94487e-13,
    3.13092e-13,
    -1.12708e-13,
    3.81e-16,
    7.106e-15,
    -1.523e-15,
    -9.4e-17,
    1.21e-16,
    -2.8e-17,
)
TERMS_OF_FLOAT32 = 12
FARTHEST = 30.0  # erfc is 0 in float64 there; larger squares would overflow


def cumulative(xp: Any, x: Array) -> Array:
    """The probability that a standard normal number is below x, as a new array of x's dtype."""
    z = xp.abs(x)
    z *= math.sqrt(0.5)
    xp.minimum(z, FARTHEST, out=z)
    t = 2 / (z + 2)
    series = SERIES[:TERMS_OF_FLOAT32] if x.dtype == np.float32 else SERIES
    exponent = _chebyshev(4 * t - 2, series)
    exponent -= z * z
    upper = xp.exp(exponent, out=exponent)
    upper *= t
    upper *= 0.5
    below: Array = xp.where(x < 0, upper, 1 - upper)
    return below


def density(xp: Any, x: Array) -> Array:
    """exp(-x^2 / 2) / sqrt(2 pi), as a new array."""
    square = xp.minimum(xp.abs(x), 2 * FARTHEST)
    square *= square
    square *= -0.5
    power: Array = xp.exp(square, out=square)
    power *= 1 / math.sqrt(2 * math.pi)
    return power


def _chebyshev(twice: Array, series: tuple[float, ...]) -> Any:
    """series[0] / 2 + the sum of series[k] T_k(twice / 2), by Clenshaw's recurrence."""
    now: Any = 0.0
    before: Any = 0.0
    for coefficient in reversed(series[1:]):
        now, before = twice * now - before + coefficient, now
    return 0.5 * (series[0] + twice * now) - before
