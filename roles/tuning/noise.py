"""How noisy gradients are, and what a larger batch would be worth (McCandlish et al. 2018; AdaptDL,
Qiao et al. 2021).

|G|^2 is the square of the true gradient, tr(S) the sum of the variances of one image's. A batch of
B images gives |g|^2 = |G|^2 + tr(S) / B on average, and two batches, neither of which has seen what
the other did, g.g' = |G|^2. So two gradients that are there anyway tell both: parts of one that
members computed, or successive ones of groups.
"""

from __future__ import annotations

from roles.tuning.momentum import Sample
from roles.tuning.ratio import Measured, Ratio

CLEAR = 0.5  # the standard error of a noise scale that is told, as a part of it


class NoiseScale:
    """Of a whole model, layer by layer; samples of coordinates count by `weight`, all of a layer
    over those sampled. `usual` is the batch of most gradients: those of another are made
    comparable."""

    def __init__(self, usual: int) -> None:
        self._usual = usual
        self._ratio = Ratio()  # |g|^2 over |G|^2, of gradients of the usual batch

    def __repr__(self) -> str:
        return f"<noise scale, power over signal {self._ratio}>"

    def parts(
        self, squares: float, count: int, whole: Sample, weight: float = 1.0, batch: int = 0
    ) -> None:
        """A gradient `whole` of a `batch` (0: the usual) is the sum of `count` parts, each of as
        many images; `squares`
        is the sum of |part|^2.

        |whole|^2 - squares is the sum of the products of two parts: (1 - 1/count) |G|^2 on average.
        Parts of unequal size make the signal look smaller: by a ninth where one of two parts has
        two thirds.
        """
        power = float(whole @ whole)
        self._add(power, (power - squares) * count / (count - 1), weight, batch)

    def successive(self, one: Sample, other: Sample, weight: float = 1.0, batch: int = 0) -> None:
        """Two gradients of whole batches, neither computed on a model that has the other in it."""
        self._add(float(one @ one + other @ other) / 2, float(one @ other), weight, batch)

    def _add(self, power: float, signal: float, weight: float, batch: int) -> None:
        noise = (power - signal) * (batch or self._usual) / self._usual
        self._ratio.add(weight * (signal + noise), weight * signal)

    def measured(self) -> Measured | None:
        """tr(S) / |G|^2 in images: the batch whose noise is as large as what it says.

        None while too little is known, or where the noise hides that there is any signal."""
        found = self._ratio.measured()
        if found is None or found.value < 0:
            return None
        return Measured(self._usual * max(0.0, found.value - 1.0), self._usual * found.error)


def efficiency(noise: float, batch: float, present: float) -> float:
    """How much an image of a batch is worth beside one of the `present` batch (Pollux, equation 7,
    as a ratio): (noise + present) / (noise + batch). `noise` is the noise scale in images."""
    return (noise + present) / (noise + batch)


def gain(noise: float, batch: float, present: float) -> float:
    """How much an iteration with a batch is worth beside one with the `present` batch, and what
    AdaScale SGD multiplies the learning rate with (Johnson et al. 2020, equation 3)."""
    return batch / present * efficiency(noise, batch, present)
