"""Random numbers that depend only on (seed, position of a sample in the run, lane), so that every
process draws the same ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw(seed: int, positions: NDArray[np.int64], lane: int) -> NDArray[np.uint64]:
    """Return one 64-bit random number per position, by SplitMix64. It depends only on (seed,
    position, lane)."""
    start = np.uint64((seed * 0x9E3779B97F4A7C15 + lane * 0xD1B54A32D192ED03) % 2**64)
    state = _mix(positions.astype(np.uint64) + start)
    return _mix(state + np.uint64(0x9E3779B97F4A7C15))


def uniform(seed: int, positions: NDArray[np.int64], lane: int) -> NDArray[np.float64]:
    """Return one number in [0, 1) per position."""
    return np.asarray((draw(seed, positions, lane) >> np.uint64(11)) * 2.0**-53)


def normal(seed: int, positions: NDArray[np.int64], lane: int) -> NDArray[np.float64]:
    """Return one number per position with mean 0 and variance 1 (Box and Muller 1958). It uses
    `lane` and the next lane."""
    radius = np.sqrt(-2 * np.log1p(-uniform(seed, positions, lane)))
    return np.asarray(radius * np.cos(2 * np.pi * uniform(seed, positions, lane + 1)))


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood 2014): every input bit changes every
    output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
