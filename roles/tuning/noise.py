"""The noise of gradients, and the worth of a larger batch.

Sources: McCandlish et al. 2018; AdaptDL, Qiao et al. 2021. |G|^2 is the square of the true
gradient, and tr(S) is the sum of the variances of one image's gradient. The gradient g of a batch
of B images has |g|^2 = |G|^2 + tr(S) / B on average. Two batches, neither computed on a model that
has seen the other, have g.g' = |G|^2 on average. So two gradients that are computed anyway give
both figures: the parts of one gradient that members of a group compute, or successive gradients of
several groups.
"""

from __future__ import annotations

from roles.tuning.momentum import Sample
from roles.tuning.ratio import Measured, Ratio

CLEAR = 0.5  # the largest relative standard error of a noise scale that is used


class NoiseScale:
    """The gradient noise scale of a whole model, measured layer by layer.

    Only sampled coordinates are used. They count by `weight`, the coordinates of the layer divided
    by those sampled. `usual` is the batch of most gradients; gradients of other batches are made
    comparable.
    """

    def __init__(self, usual: int) -> None:
        self._usual = usual
        self._ratio = Ratio()  # |g|^2 over |G|^2, of gradients of the usual batch

    def __repr__(self) -> str:
        return f"<noise scale, power over signal {self._ratio}>"

    def parts(
        self, squares: float, count: int, whole: Sample, weight: float = 1.0, batch: int = 0
    ) -> None:
        """Add a gradient `whole` of a `batch` (0: the usual), the sum of `count` parts of equally
        many images. `squares` is the sum of |part|^2.

        |whole|^2 - squares is the sum of the products of two parts: (1 - 1/count) |G|^2 on average.
        Parts of unequal size make the signal look smaller: by a ninth where one of two parts has
        two thirds.
        """
        power = float(whole @ whole)
        self._add(power, (power - squares) * count / (count - 1), weight, batch)

    def successive(self, one: Sample, other: Sample, weight: float = 1.0, batch: int = 0) -> None:
        """Add two gradients of whole batches, neither computed on a model that includes the
        other."""
        self._add(float(one @ one + other @ other) / 2, float(one @ other), weight, batch)

    def _add(self, power: float, signal: float, weight: float, batch: int) -> None:
        noise = (power - signal) * (batch or self._usual) / self._usual
        self._ratio.add(weight * (signal + noise), weight * signal)

    def measured(self) -> Measured | None:
        """tr(S) / |G|^2 in images: the batch whose noise is as large as its signal.

        None while too little is known, or where the noise hides whether there is any signal.
        """
        found = self._ratio.measured()
        if found is None or found.value < 0:
            return None
        return Measured(self._usual * max(0.0, found.value - 1.0), self._usual * found.error)


def efficiency(noise: float, batch: float, present: float) -> float:
    """The worth of an image of a `batch` compared with an image of the `present` batch (Pollux,
    equation 7, as a ratio): (noise + present) / (noise + batch). `noise` is the noise scale in
    images."""
    return (noise + present) / (noise + batch)


def gain(noise: float, batch: float, present: float) -> float:
    """The worth of an iteration with `batch` compared with an iteration with the `present` batch.
    AdaScale SGD multiplies the learning rate by this gain (Johnson et al. 2020, equation 3)."""
    return batch / present * efficiency(noise, batch, present)
