"""Average pooling to a given size, whatever the size of the images.

Output i of n along an axis of `size` pixels is the mean of the pixels from floor(i size / n) to
ceil((i + 1) size / n), as in PyTorch. Windows may overlap, and may differ by one pixel. A window's
mean is the mean over its rows of the means over its columns.
"""

from __future__ import annotations

from typing import Any

from ops.errors import Array, OpsError, Shape, check_float, check_ndim, check_out

Pair = tuple[int, int]


def windows(size: int, outputs: int) -> list[slice]:
    """The pixels of each output along one axis."""
    return [slice(at * size // outputs, -(-(at + 1) * size // outputs)) for at in range(outputs)]


def forward(xp: Any, x: Array, sizes: Pair, out: Array | None) -> Array:
    """x (N, C, H, W) -> y (N, C, *sizes)."""
    shape = _shape("adaptive_pool_forward", x, sizes)
    check_out("adaptive_pool_forward", "out", out, shape, x.dtype)
    strips = xp.empty_like(x, shape=(*x.shape[:3], sizes[1]))
    for at, window in enumerate(windows(x.shape[3], sizes[1])):
        xp.mean(x[:, :, :, window], axis=3, out=strips[:, :, :, at])
    y: Array = xp.empty_like(x, shape=shape) if out is None else out
    for at, window in enumerate(windows(x.shape[2], sizes[0])):
        xp.mean(strips[:, :, window], axis=2, out=y[:, :, at])
    return y


def backward(xp: Any, dy: Array, in_shape: Shape, out: Array | None) -> Array:
    """dy (N, C, OH, OW) -> dx of shape `in_shape`."""
    op = "adaptive_pool_backward"
    check_float(op, dy=dy)
    check_ndim(op, "dy", dy, "NCHW")
    if len(in_shape) != 4 or tuple(in_shape[:2]) != tuple(dy.shape[:2]) or min(in_shape) < 1:
        raise OpsError(
            f"{op}: input shape is {tuple(in_shape)}, expected ({dy.shape[0]}, {dy.shape[1]}, H, W)"
        )
    check_out(op, "out", out, in_shape, dy.dtype)
    strips = xp.zeros_like(dy, shape=(*in_shape[:3], dy.shape[3]))
    for at, window in enumerate(windows(in_shape[2], dy.shape[2])):
        strips[:, :, window] += dy[:, :, at : at + 1] / (window.stop - window.start)
    dx: Array = xp.empty_like(dy, shape=in_shape) if out is None else out
    dx[...] = 0
    for at, window in enumerate(windows(in_shape[3], dy.shape[3])):
        dx[:, :, :, window] += strips[:, :, :, at : at + 1] / (window.stop - window.start)
    return dx


def _shape(op: str, x: Array, sizes: Pair) -> Shape:
    check_float(op, x=x)
    check_ndim(op, "x", x, "NCHW")
    if min(sizes) < 1 or x.size == 0:
        raise OpsError(
            f"{op}: x has shape {tuple(x.shape)} and sizes are {sizes}, expected positive sizes"
        )
    return (*x.shape[:2], *sizes)
