"""Operations over whole axes: normalisation by statistics, reductions, places of maxima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ops.activation import Activation
from ops.errors import Array
from ops.reference import fused, normalise, reduction, row_norm


class StatisticsOps:
    """Normalisation of batches, groups, places and images, reductions, arg max."""

    xp: Any

    def channel_sums(self, x: Array, out: Array | None = None) -> Array:
        """x (N, C, ...) -> (C,), summed over all other axes: the gradient of a bias."""
        return reduction.channel_sums(self.xp, x, out)

    def batch_norm_forward(
        self,
        x: Array,
        *,
        eps: float = 1e-5,
        statistics: tuple[Array, Array] | None = None,
        out: Array | None = None,
        mean: Array | None = None,
        variance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """(x - mean) / sqrt(variance + eps) per channel -> (y, mean (C,), variance (C,)).

        The statistics are the batch's unless `statistics` gives them. `mean` and `variance` are
        destinations for the batch's statistics.
        """
        return normalise.batch_norm_forward(self.xp, x, eps, statistics, out, mean, variance)

    def batch_norm_backward(
        self,
        dy: Array,
        y: Array,
        variance: Array,
        *,
        eps: float = 1e-5,
        fixed: bool = False,
        out: Array | None = None,
    ) -> Array:
        """dx from the normalised y. With `fixed` (given statistics) dx is dy / sqrt(variance +
        eps)."""
        return normalise.batch_norm_backward(self.xp, dy, y, variance, eps, fixed, out)

    def norm_scale_forward(
        self,
        x: Array,
        gamma: Array,
        beta: Array,
        *,
        eps: float = 1e-5,
        statistics: tuple[Array, Array] | None = None,
        activation: Activation | None = None,
        addend: Array | None = None,
        out: Array | None = None,
        mean: Array | None = None,
        variance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Batch norm, then gamma * y + beta along axis 1, then + addend, then the activation: all
        at once.

        Returns (y, mean, variance) as batch_norm_forward does. out may be x or addend; backward
        needs x.
        """
        return fused.norm_scale_forward(
            cast(Any, self),
            x,
            gamma,
            beta,
            eps,
            statistics,
            activation,
            addend,
            out,
            mean,
            variance,
        )

    def norm_scale_backward(
        self,
        dy: Array,
        x: Array,
        gamma: Array,
        beta: Array,
        mean: Array,
        variance: Array,
        *,
        eps: float = 1e-5,
        fixed: bool = False,
        activation: Activation | None = None,
        sums: tuple[Array, Array] | None = None,
        out: Array | None = None,
        out_gamma: Array | None = None,
        out_beta: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """dx, dgamma, dbeta. x is the forward pass's input, mean and variance are its results. The
        addend's gradient is dy.

        The activation's argument is computed again from x, so the forward pass must have had no
        addend. After one with an addend, take the activation's gradient first (relu_backward) and
        leave `activation` out. `sums` are the sums that `rectified_sums` gave with such a dy; a
        backend that knows them need not read dy and x for them. out may be dy.
        """
        return fused.norm_scale_backward(
            cast(Any, self),
            dy,
            x,
            gamma,
            beta,
            mean,
            variance,
            eps,
            fixed,
            activation,
            sums,
            out,
            out_gamma,
            out_beta,
        )

    def rectified_sums(
        self,
        gradients: Sequence[Array],
        y: Array,
        x: Array,
        mean: Array,
        *,
        out: Array | None = None,
        out_sums: Array | None = None,
        out_products: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """The gradient g of the argument of a rectifier with the result y (N, C, ...), and g's sums
        for `norm_scale_backward`: g is the sum of one or two gradients where y > 0, else 0.

        Returns (g, sums of g (C,), sums of g * (x - mean) (C,)), with mean (C,) the mean of x. out
        may be a gradient.
        """
        return fused.rectified_sums(
            cast(Any, self), gradients, y, x, mean, out, out_sums, out_products
        )

    def norm_added(
        self, mean: Array, variance: Array, share: float, unbiased: float, out: Sequence[Array]
    ) -> None:
        """The amounts that a pass over `share` of a batch adds to running statistics (means,
        variances, their weight (1,)): out = share * mean, unbiased * variance, share."""
        normalise.added(self.xp, mean, variance, share, unbiased, out)

    def norm_running(self, blobs: Sequence[Array], mean: Array, variance: Array) -> None:
        """mean and variance (C,) from the running statistics `blobs`: the sums divided by their
        weight, or 0 if the weight is 0."""
        normalise.running(self.xp, blobs, mean, variance)

    def group_norm_forward(
        self,
        x: Array,
        *,
        groups: int,
        eps: float = 1e-5,
        out: Array | None = None,
        inverse: Array | None = None,
    ) -> tuple[Array, Array]:
        """(x - mean) / sqrt(variance + eps) over each group of channels of each row -> (y, 1 /
        sqrt(variance + eps) (N, groups)). out may be x."""
        return row_norm.group_norm_forward(self.xp, x, groups, eps, out, inverse)

    def group_norm_backward(
        self, dy: Array, y: Array, inverse: Array, *, groups: int, out: Array | None = None
    ) -> Array:
        """dx from the normalised y and the forward pass's inverse. out may be dy."""
        return row_norm.group_norm_backward(self.xp, dy, y, inverse, groups, out)

    def layer_norm_forward(
        self,
        x: Array,
        *,
        axis: int = 1,
        eps: float = 1e-5,
        out: Array | None = None,
        inverse: Array | None = None,
    ) -> tuple[Array, Array]:
        """(x - mean) / sqrt(variance + eps) along one axis -> (y, 1 / sqrt(variance + eps) of x's
        shape without that axis). out may be x."""
        return row_norm.layer_norm_forward(self.xp, x, axis, eps, out, inverse)

    def layer_norm_backward(
        self, dy: Array, y: Array, inverse: Array, *, axis: int = 1, out: Array | None = None
    ) -> Array:
        """dx from the normalised y and the forward pass's inverse. out may be dy."""
        return row_norm.layer_norm_backward(self.xp, dy, y, inverse, axis, out)

    def mvn_forward(
        self,
        x: Array,
        *,
        across_channels: bool = False,
        normalize_variance: bool = True,
        eps: float = 1e-9,
        out: Array | None = None,
    ) -> tuple[Array, Array | None]:
        """(x - mean) / (sqrt(variance) + eps) per image and channel, or per image -> (y, divisor or
        None)."""
        return normalise.mvn_forward(self.xp, x, across_channels, normalize_variance, eps, out)

    def mvn_backward(
        self,
        dy: Array,
        y: Array,
        deviation: Array | None,
        *,
        across_channels: bool = False,
        out: Array | None = None,
    ) -> Array:
        """dx from the normalised y and the divisor (None where the variance was left alone)."""
        return normalise.mvn_backward(self.xp, dy, y, deviation, across_channels, out)

    def reduction_forward(
        self,
        x: Array,
        *,
        operation: str = "SUM",
        axis: int = 0,
        coeff: float = 1.0,
        out: Array | None = None,
    ) -> Array:
        """coeff * (SUM, ASUM, SUMSQ or MEAN) of all axes from `axis` on -> shape x.shape[:axis]."""
        return reduction.forward(self.xp, x, operation, axis, coeff, out)

    def reduction_backward(
        self,
        dy: Array,
        x: Array,
        *,
        operation: str = "SUM",
        axis: int = 0,
        coeff: float = 1.0,
        out: Array | None = None,
    ) -> Array:
        """dy of shape x.shape[:axis] -> dx."""
        return reduction.backward(self.xp, dy, x, operation, axis, coeff, out)

    def arg_max(
        self,
        x: Array,
        *,
        top_k: int = 1,
        out_max_val: bool = False,
        axis: int | None = None,
        out: Array | None = None,
    ) -> Array:
        """Places of the top_k largest values as numbers of x's dtype; reduction.arg_max describes
        the shapes."""
        return reduction.arg_max(self.xp, x, top_k, out_max_val, axis, out)

    def l2_norm_squared(self, x: Array) -> float:
        """The sum of squares in float64, for clipping gradients by their global norm."""
        return reduction.l2_norm_squared(self.xp, x)
