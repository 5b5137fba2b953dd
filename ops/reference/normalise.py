"""Normalisation by mean and variance: batch normalisation and MVN, as Caffe defines them.

Statistics are biased (divided by the count). Running averages and learned scale and bias are not
handled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ops.errors import Array, OpsError, check_alike, check_float, check_out, check_shape


def _channel_axes(op: str, x: Array) -> tuple[int, ...]:
    if x.ndim < 2 or x.size == 0:
        raise OpsError(
            f"{op}: x has shape {tuple(x.shape)}, expected (N, C, ...) with no empty axis"
        )
    return tuple(a for a in range(x.ndim) if a != 1)


def _column(statistic: Array, x: Array) -> Array:
    """(C,) as an array that broadcasts over (N, C, ...)."""
    return statistic.reshape((-1,) + (1,) * (x.ndim - 2))


def batch_norm_forward(
    xp: Any, x: Array, eps: float, statistics: tuple[Array, Array] | None, out: Array | None,
    out_mean: Array | None, out_variance: Array | None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """y = (x - mean) / sqrt(variance + eps) per channel of (N, C, ...) -> (y, mean (C,), variance
    (C,)).

    Without `statistics` (training) the statistics are the batch's, and go into the destinations.
    With them (test) the given mean and variance are used. out may be x.
    """
    axes = check_batch_norm(x, statistics, out, out_mean, out_variance)
    mean, variance = (
        statistics if statistics is not None else (x.mean(axis=axes, out=out_mean), None)
    )
    y: Array = xp.subtract(x, _column(mean, x), out=out)
    if variance is None:
        variance = xp.square(y).mean(axis=axes, out=out_variance)
    y *= _column(1 / xp.sqrt(variance + float(eps)), x)
    return y, mean, variance


def check_batch_norm(
    x: Array, statistics: tuple[Array, Array] | None, out: Array | None, out_mean: Array | None,
    out_variance: Array | None,
) -> tuple[int, ...]:  # fmt: skip
    """Check the arguments of a forward pass; returns the axes that statistics are taken over."""
    op = "batch_norm_forward"
    check_alike(op, out, x=x)
    axes = _channel_axes(op, x)
    for name, target in (("mean", out_mean), ("variance", out_variance)):
        check_out(op, name, target, x.shape[1:2], x.dtype)
        if statistics is not None and target is not None:
            raise OpsError(
                f"{op}: {name} is given together with statistics, expected a "
                "destination only for the batch's own"
            )
    for name, given in zip(("mean", "variance"), statistics or (), strict=False):
        check_float(op, x=x, **{name: given})
        check_shape(op, name, given, x.shape[1:2])
    return axes


def check_batch_norm_backward(
    dy: Array, y: Array, variance: Array, out: Array | None
) -> tuple[int, ...]:
    """Check the arguments of a backward pass; returns the axes that statistics were taken over."""
    op = "batch_norm_backward"
    check_alike(op, out, dy=dy, y=y)
    axes = _channel_axes(op, dy)
    check_float(op, dy=dy, variance=variance)
    check_shape(op, "variance", variance, dy.shape[1:2])
    return axes


def batch_norm_backward(
    xp: Any, dy: Array, y: Array, variance: Array, eps: float, fixed: bool, out: Array | None
) -> Array:
    """dx = (dy - mean(dy) - y mean(dy y)) / sqrt(variance + eps). With `fixed` statistics dx = dy /
    sqrt(variance + eps).

    y is the normalised result. out may be dy.
    """
    axes = check_batch_norm_backward(dy, y, variance, out)
    factor = _column(1 / xp.sqrt(variance + float(eps)), dy)
    if fixed:
        dx: Array = xp.multiply(dy, factor, out=out)
        return dx
    dx = without_mean_and_slope(xp, dy, y, axes, out)
    dx *= factor
    return dx


def without_mean_and_slope(
    xp: Any, dy: Array, y: Array, axes: tuple[int, ...], out: Array | None
) -> Array:
    """dy - mean(dy) - y mean(dy * y), means over `axes`."""
    along = xp.multiply(dy, y)
    slope = along.mean(axis=axes, keepdims=True)
    mean = dy.mean(axis=axes, keepdims=True)
    xp.multiply(y, slope, out=along)
    along += mean
    dx: Array = xp.subtract(dy, along, out=out)
    return dx


def added(
    xp: Any, mean: Array, variance: Array, share: float, unbiased: float, out: Sequence[Array]
) -> None:
    """out = share * mean, unbiased * variance, share."""
    xp.multiply(mean, share, out=out[0])
    xp.multiply(variance, unbiased, out=out[1])
    out[2][...] = share


def running(xp: Any, blobs: Sequence[Array], mean: Array, variance: Array) -> None:
    """mean and variance are blobs[0] and blobs[1] divided by the number blobs[2], or 0 if that is
    0."""
    weight = float(blobs[2][0])
    for given, kept in zip(blobs, (mean, variance), strict=False):
        xp.multiply(given, 1.0 / weight if weight else 0.0, out=kept)


def _row_axes(op: str, x: Array, across_channels: bool) -> tuple[int, ...]:
    if x.ndim < 2 or x.size == 0:
        raise OpsError(
            f"{op}: x has shape {tuple(x.shape)}, expected (N, C, ...) with no empty axis"
        )
    return tuple(range(1 if across_channels else 2, x.ndim))


def mvn_forward(
    xp: Any,
    x: Array,
    across_channels: bool,
    normalize_variance: bool,
    eps: float,
    out: Array | None,
) -> tuple[Array, Array | None]:
    """Each image's channels (or with `across_channels` each image) minus their mean, and by
    default divided by sqrt(variance) + eps -> (y, that divisor with its axes kept, or None). out
    may be x."""
    op = "mvn_forward"
    check_alike(op, out, x=x)
    axes = _row_axes(op, x, across_channels)
    y: Array = xp.subtract(x, x.mean(axis=axes, keepdims=True), out=out)
    if not normalize_variance:
        return y, None
    deviation: Array = xp.sqrt(xp.square(y).mean(axis=axes, keepdims=True))
    deviation += float(eps)
    y /= deviation
    return y, deviation


def mvn_backward(
    xp: Any, dy: Array, y: Array, deviation: Array | None, across_channels: bool, out: Array | None
) -> Array:
    """dx = (dy - mean(dy) - y mean(dy y)) / deviation; dy - mean(dy) if deviation is None. out may
    be dy.

    This is Caffe's gradient, which takes eps for negligible compared with the standard deviation.
    """
    op = "mvn_backward"
    check_alike(op, out, dy=dy, y=y)
    axes = _row_axes(op, dy, across_channels)
    if deviation is None:
        dx: Array = xp.subtract(dy, dy.mean(axis=axes, keepdims=True), out=out)
        return dx
    check_float(op, dy=dy, deviation=deviation)
    check_shape(
        op, "deviation", deviation, tuple(1 if a in axes else s for a, s in enumerate(dy.shape))
    )
    dx = without_mean_and_slope(xp, dy, y, axes, out)
    dx /= deviation
    return dx
