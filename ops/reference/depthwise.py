"""Depthwise convolution: each output reads one channel, so nothing is summed over channels.

x (N, C, H, W) and weights (M C, 1, kh, kw) give M outputs for each channel: output k reads channel
k // M. These are the weights of a convolution in C groups. Windows are not lowered, and no loop
runs over channels: each weight of the kernel takes one pass over the images. A backend's kernel can
take over each of the three functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.errors import Array, OpsError, Shape
from ops.geometry import ConvGeometry
from ops.reference import conv
from ops.reference.activation import relu_forward
from ops.reference.reduction import channel_sums

Part = tuple[Any, slice, slice]


def forward(
    xp: Any, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None,
    rectify: bool = False,
) -> Array:  # fmt: skip
    """x (N, C, H, W), w (M C, 1, kh, kw), b (M C,) or None -> y (N, M C, OH, OW); max(y, 0) with
    `rectify`."""
    shape = check_forward(x, w, b, geometry, out)
    y: Array = xp.empty_like(x, shape=shape) if out is None else out
    y[...] = 0 if b is None else b[:, None, None]
    y_NCMPQ = _by_channel(y, geometry)
    x_NC1HW = x[:, :, None]
    for tap, outputs, inputs in _taps(geometry, x.shape):
        y_NCMPQ[outputs] += x_NC1HW[inputs] * _of_tap(xp, w, tap, geometry)
    return relu_forward(xp, y, 0.0, y) if rectify else y


def backward_data(
    xp: Any, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None
) -> Array:
    """dy (N, M C, OH, OW), w (M C, 1, kh, kw) -> dx of shape `in_shape` (N, C, H, W)."""
    check_backward_data(dy, w, geometry, in_shape, out)
    dx: Array = xp.empty_like(dy, shape=in_shape) if out is None else out
    dx[...] = 0
    dy_NCMPQ = _by_channel(dy, geometry)
    several = dy_NCMPQ.shape[2] > 1
    for tap, outputs, inputs in _taps(geometry, in_shape):
        product = dy_NCMPQ[outputs] * _of_tap(xp, w, tap, geometry)
        dx[inputs] += product.sum(axis=2) if several else product[:, :, 0]
    return dx


def backward_weights(
    xp: Any, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, bias: bool,
    out_w: Array | None, out_b: Array | None,
) -> tuple[Array, Array | None]:  # fmt: skip
    """x (N, C, H, W), dy (N, M C, OH, OW) -> dw (M C, 1, kh, kw) and, with `bias`, db (M C,)."""
    check_backward_weights(x, dy, geometry, w_shape, out_w, out_b)
    dw: Array = xp.empty(w_shape, x.dtype) if out_w is None else out_w
    dy_NCMPQ = _by_channel(dy, geometry)
    x_NC1HW = x[:, :, None]
    for (i, j), outputs, inputs in _taps(geometry, x.shape):
        product = dy_NCMPQ[outputs] * x_NC1HW[inputs]
        dw[:, 0, i, j] = product.sum(axis=(0, 3, 4)).reshape(-1)
    return dw, channel_sums(xp, dy, out_b) if bias else None


def check_forward(
    x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None
) -> Shape:
    """Check the arguments of a forward pass; returns y's shape."""
    op = "depthwise_forward"
    shape = conv.check_forward(x, w, b, geometry, out, op)
    _check_groups(op, x.shape[1], geometry)
    return shape


def check_backward_data(
    dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, out: Array | None
) -> None:
    """Check the arguments of the gradient by the images."""
    op = "depthwise_backward_data"
    conv.check_backward_data(dy, w, geometry, in_shape, out, op)
    _check_groups(op, in_shape[1], geometry)


def check_backward_weights(
    x: Array,
    dy: Array,
    geometry: ConvGeometry,
    w_shape: Shape,
    out_w: Array | None,
    out_b: Array | None,
) -> None:
    """Check the arguments of the gradient by the weights."""
    op = "depthwise_backward_weights"
    conv.check_backward_weights(x, dy, geometry, w_shape, out_w, out_b, op)
    _check_groups(op, x.shape[1], geometry)


def _check_groups(op: str, channels: int, geometry: ConvGeometry) -> None:
    if geometry.groups != channels:
        raise OpsError(
            f"{op}: groups is {geometry.groups}, expected {channels}, one for each channel"
        )


def _by_channel(y: Array, geometry: ConvGeometry) -> Array:
    """(N, M C, P, Q) as (N, C, M, P, Q), a view whatever the strides."""
    return y.reshape(y.shape[0], geometry.groups, -1, *y.shape[2:])


def _of_tap(xp: Any, w: Array, tap: tuple[int, int], geometry: ConvGeometry) -> Array:
    """One weight of each kernel, as (C, M, 1, 1)."""
    weights = xp.ascontiguousarray(w[:, 0, tap[0], tap[1]])
    return weights.reshape(geometry.groups, -1, 1, 1)  # type: ignore[no-any-return]


def _taps(geometry: ConvGeometry, in_shape: Shape) -> Iterator[tuple[tuple[int, int], Part, Part]]:
    """Each place (i, j) of the kernel, the outputs that it reaches, and the pixels that they read
    there."""
    columns = geometry.reaches(1, in_shape[3])
    for i, (high, rows) in enumerate(geometry.reaches(0, in_shape[2])):
        for j, (wide, places) in enumerate(columns):
            yield (i, j), (..., high, wide), (..., rows, places)
