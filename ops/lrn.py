"""Local response normalisation, forward and backward, as Caffe defines it.

y = x / s^beta. Across channels s = k + alpha / size * (sum of x^2 over `size` channels around); within a channel
s = 1 + alpha / size^2 * (the same over size * size pixels), and k is not used. Squares beyond the border count as
zero. beta = 0.75, the papers' value, takes two square roots: a tenth of the time of a power.
"""

from __future__ import annotations

from typing import Any

from ops.errors import Array, OpsError, check_alike, check_choice, check_ndim, check_out

REGIONS = {"ACROSS_CHANNELS": (1,), "WITHIN_CHANNEL": (2, 3)}


def share_and_shift(op: str, size: int, alpha: float, k: float, region: str) -> tuple[float, float]:
    """What one square counts and what stands beside the sum: s = shift + share * sum of squares."""
    check_choice(f"{op}: region", region, REGIONS)
    if type(size) is not int or size < 1 or size % 2 == 0:
        raise OpsError(f"{op}: size is {size!r}, expected an odd number of at least 1")
    axes = REGIONS[region]
    return float(alpha) / size ** len(axes), float(k) if len(axes) == 1 else 1.0


def forward(
    xp: Any, x: Array, size: int, alpha: float, beta: float, k: float, region: str,
    out: Array | None, scale: Array | None,
) -> tuple[Array, Array]:  # fmt: skip
    """x (N, C, H, W) -> y and the scale s, both of x's shape. out may be x."""
    op = "lrn_forward"
    check_alike(op, out, x=x)
    check_ndim(op, "x", x, "NCHW")
    check_out(op, "scale", scale, x.shape, x.dtype)
    share, shift = share_and_shift(op, size, alpha, k, region)
    squares = xp.multiply(x, x)
    s = _window_sums(xp, squares, size, region, scale)
    s *= share
    s += shift
    y: Array = xp.divide(x, _powered(xp, s, beta, squares), out=out)
    return y, s


def backward(
    xp: Any, dy: Array, x: Array, y: Array, scale: Array, size: int, alpha: float, beta: float, region: str,
    out: Array | None,
) -> Array:  # fmt: skip
    """dx = dy / s^beta - 2 beta share * x * (sum of dy * y / s over the window). out may be dy."""
    op = "lrn_backward"
    check_alike(op, out, dy=dy, x=x, y=y, scale=scale)
    check_ndim(op, "x", x, "NCHW")
    share, _ = share_and_shift(op, size, alpha, 1.0, region)
    ratio = xp.multiply(dy, y)
    ratio /= scale
    back = _window_sums(xp, ratio, size, region, None)
    back *= x
    back *= 2 * float(beta) * share
    dx: Array = xp.divide(dy, _powered(xp, scale, beta, ratio), out=out)
    dx -= back
    return dx


def _window_sums(xp: Any, values: Array, size: int, region: str, out: Array | None) -> Array:
    for axis in REGIONS[region]:
        total: Array = xp.empty_like(values) if out is None or axis == 2 else out
        total[...] = values
        for step in range(1, min(size // 2 + 1, values.shape[axis])):
            ahead = (slice(None),) * axis + (slice(step, None),)
            behind = (slice(None),) * axis + (slice(None, -step),)
            total[behind] += values[ahead]
            total[ahead] += values[behind]
        values = total
    return values


def _powered(xp: Any, s: Array, beta: float, into: Array) -> Array:
    """s ^ beta, written into `into`."""
    if beta != 0.75:
        return xp.power(s, float(beta), out=into)  # type: ignore[no-any-return]
    xp.sqrt(s, out=into)
    into *= xp.sqrt(into)
    return into
