"""Running statistics of BatchNorm, merged from several islands by the rows that each has seen.

A layer has Caffe's three arrays: the sum of means, the sum of variances, and their weight. The
merged variance is the total variance: the mean of the islands' variances plus the variance of their
means. So it is the variance of all rows together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ops import Array
from roles.messages import Blobs

ARRAYS = 3  # of a layer with running statistics: sum of means, sum of variances, weight


def merged(parts: Sequence[Blobs], shares: Sequence[float]) -> Blobs:
    """The statistics of all parts together. `shares`: the part of the rows that each has seen; they
    add up to 1. A part that has seen nothing yet, with weight 0, does not count."""
    wide = [[np.asarray(array, np.float64) for array in part] for part in parts]
    weight = _weighted([part[2] for part in wide], shares)
    if not np.any(weight):
        return tuple(np.array(array) for array in parts[0])
    mean = _weighted([part[0] for part in wide], shares) / weight
    spread = _weighted([_about(part, mean) for part in wide], shares)
    dtype = parts[0][0].dtype
    return tuple(np.asarray(array, dtype) for array in (mean * weight, spread, weight))


def _weighted(arrays: Sequence[Array], shares: Sequence[float]) -> Array:
    """The sum of the arrays, each times its share."""
    total = np.zeros(arrays[0].shape)
    for array, share in zip(arrays, shares, strict=True):
        total += share * array
    return total


def _about(part: Sequence[Array], mean: Array) -> Array:
    """A part's weight times its mean square distance from `mean`."""
    means, variances, weight = part
    if not np.any(weight):
        return np.zeros_like(variances)
    found: Array = variances + weight * (means / weight - mean) ** 2
    return found
