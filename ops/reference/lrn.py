"""Local response normalisation, forward and backward, as Caffe defines it.

y = x / s^beta. Across channels s = k + alpha / size * (sum of x^2 over `size` channels around);
within a channel s = 1 + alpha / size^2 * (the same over size * size pixels), and k is not used.
Squares beyond the border count as zero. beta = 0.75, the papers' value, takes two square roots,
sqrt(s sqrt(s)), in place of a power.
"""

from __future__ import annotations

from typing import Any

from ops.errors import Array, OpsError, check_alike, check_choice, check_ndim, check_out

REGIONS = {"ACROSS_CHANNELS": (1,), "WITHIN_CHANNEL": (2, 3)}
CACHED_ELEMENTS = 1 << 16


def share_and_shift(op: str, size: int, alpha: float, k: float, region: str) -> tuple[float, float]:
    """Return share and shift of the formula s = shift + share * sum of squares."""
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
    s: Array = xp.empty_like(x) if scale is None else scale
    y: Array = xp.empty_like(x) if out is None else out
    for part in _parts(x):
        squares = xp.multiply(x[part], x[part])
        s_part = s[part]
        _window_sums(xp, squares, size, region, s_part)
        s_part *= share
        s_part += shift
        xp.divide(x[part], _powered(xp, s_part, beta, squares), out=y[part])
    return y, s


def _parts(x: Array) -> list[slice]:
    """Slices of as many images as stay in a processor's cache between one pass and the next."""
    step = max(1, CACHED_ELEMENTS // max(1, x[:1].size))
    return [slice(start, start + step) for start in range(0, x.shape[0], step)]


def backward(
    xp: Any,
    dy: Array,
    x: Array,
    y: Array,
    scale: Array,
    size: int,
    alpha: float,
    beta: float,
    region: str,
    out: Array | None,
) -> Array:
    """dx = dy / s^beta - 2 beta share * x * (sum of dy * y / s over the window). out may be dy."""
    op = "lrn_backward"
    check_alike(op, out, dy=dy, x=x, y=y, scale=scale)
    check_ndim(op, "x", x, "NCHW")
    share, _ = share_and_shift(op, size, alpha, 1.0, region)
    dx: Array = xp.empty_like(dy) if out is None else out
    for part in _parts(x):
        ratio = xp.multiply(dy[part], y[part])
        ratio /= scale[part]
        back = _window_sums(xp, ratio, size, region, xp.empty_like(ratio))
        back *= x[part]
        back *= 2 * float(beta) * share
        xp.divide(dy[part], _powered(xp, scale[part], beta, ratio), out=dx[part])
        dx[part] -= back
    return dx


def _window_sums(xp: Any, values: Array, size: int, region: str, out: Array) -> Array:
    for axis in REGIONS[region]:
        total: Array = xp.empty_like(values) if axis == 2 else out
        total[...] = values
        for step in range(1, min(size // 2 + 1, values.shape[axis])):
            ahead = (slice(None),) * axis + (slice(step, None),)
            behind = (slice(None),) * axis + (slice(None, -step),)
            total[behind] += values[ahead]
            total[ahead] += values[behind]
        values = total
    return out


def _powered(xp: Any, s: Array, beta: float, into: Array) -> Array:
    """s ^ beta, written into `into`."""
    if beta != 0.75:
        return xp.power(s, float(beta), out=into)  # type: ignore[no-any-return]
    xp.sqrt(s, out=into)
    into *= s
    return xp.sqrt(into, out=into)  # type: ignore[no-any-return]
