"""How noisy gradients are, and what a larger batch would be worth (McCandlish et al. 2018; AdaptDL, Qiao et al. 2021).

|G|^2 is the square of the true gradient, tr(S) the sum of the variances of one image's. A batch of B images gives
|g|^2 = |G|^2 + tr(S) / B on average, and two batches, neither of which has seen what the other did, g.g' = |G|^2. So
two gradients that are there anyway tell both: parts of one that members computed, or successive ones of groups.
"""

from __future__ import annotations

from roles.tuning.momentum import Sample
from roles.tuning.ratio import Measured, Ratio


class NoiseScale:
    """Of a whole model, layer by layer; samples of coordinates count by `weight`, all of a layer over those sampled."""

    def __init__(self) -> None:
        self._ratio = Ratio()  # |g|^2 over |G|^2

    def __repr__(self) -> str:
        return f"<noise scale, power over signal {self._ratio}>"

    def parts(self, squares: float, count: int, whole: Sample, weight: float = 1.0) -> None:
        """A gradient `whole` is the sum of `count` parts, each of as many images; `squares` is the sum of |part|^2.

        |whole|^2 - squares is the sum of the products of two parts: (1 - 1/count) |G|^2 on average. Parts of unequal
        size make the signal look smaller: by a ninth where one of two parts has two thirds.
        """
        power = float(whole @ whole)
        self._ratio.add(weight * power, weight * (power - squares) * count / (count - 1))

    def successive(self, one: Sample, other: Sample, weight: float = 1.0) -> None:
        """Two gradients of whole batches, neither computed on a model that has the other in it."""
        power = float(one @ one + other @ other) / 2
        self._ratio.add(weight * power, weight * float(one @ other))

    def measured(self, batch: int) -> Measured | None:
        """tr(S) / |G|^2 in images: the batch whose noise is as large as what it says. `batch`: of the gradients.

        None while too little is known, or where the noise hides that there is any signal."""
        found = self._ratio.measured()
        if found is None or found.value < 0:
            return None
        return Measured(batch * max(0.0, found.value - 1.0), batch * found.error)


def efficiency(noise: float, batch: float, present: float) -> float:
    """How much an image of a batch is worth beside one of the `present` batch (Pollux, equation 7, as a ratio):
    (noise + present) / (noise + batch). `noise` is the noise scale in images."""
    return (noise + present) / (noise + batch)
