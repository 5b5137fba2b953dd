"""Convolution forward and backward by batched lowering and one GEMM per part of the batch.

`b_p` images are lowered together (Omnivore, section 3): None takes the whole batch, 1 is Caffe's
serial scheme, and the results agree up to rounding. New results are stored channel-major and
returned as logical NCHW views, because the GEMM writes them that way; a destination of another
layout costs one copy. The lowering knows what a window covers, and the backend chooses the
lowering.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.errors import Array, OpsError, Shape, check_float, check_ndim, check_out, check_shape
from ops.geometry import ConvGeometry, check_image
from ops.reference.activation import relu_forward
from ops.reference.lowering import Lowering


def _parts(images: int, b_p: int | None) -> Iterator[slice]:
    step = b_p or images
    return (slice(start, min(start + step, images)) for start in range(0, images, step))


def _swap(x: Array) -> Array:
    """NCHW <-> CNHW, a view."""
    return x.transpose(1, 0, 2, 3)


def channel_major(xp: Any, shape: Shape, dtype: Any) -> Array:
    """An NCHW view of channel-major storage."""
    return _swap(xp.empty((shape[1], shape[0], *shape[2:]), dtype))


def _check_weights(op: str, w: Shape, channels: int, geometry: ConvGeometry) -> None:
    groups = geometry.groups
    kernel = geometry.kernel
    if len(w) != 4 or tuple(w[2:]) != kernel or w[1] * groups != channels or w[0] % groups:
        raise OpsError(
            f"{op}: weights have shape {tuple(w)}, expected (outputs, {channels} channels / "
            f"{groups} groups, "
            f"{kernel[0]}, {kernel[1]}) with outputs a multiple of {groups}"
        )


def _check_gradient(
    op: str, dy: Array, in_shape: Shape, outputs: int, geometry: ConvGeometry
) -> None:
    check_ndim(op, "dy", dy, "NKHW")
    check_shape(op, "dy", dy, geometry.output_shape(tuple(in_shape), outputs))


def _group(matrix_of: Array, group: int, groups: int) -> Array:
    """The rows of one group (axis 0 split evenly), all but axis 0 kept."""
    size = matrix_of.shape[0] // groups
    return matrix_of[group * size : (group + 1) * size]


def forward(
    xp: Any, x: Array, w: Array, b: Array | None, geometry: ConvGeometry, lowering: Lowering,
    out: Array | None, rectify: bool = False,
) -> Array:  # fmt: skip
    """x (N, C, H, W), w (K, C/groups, kh, kw), b (K,) or None -> y (N, K, OH, OW); max(y, 0) with
    `rectify`."""
    shape = check_forward(x, w, b, geometry, out)
    y = channel_major(xp, shape, x.dtype) if out is None else out
    y_KNPQ = _swap(y)
    for part in _parts(x.shape[0], lowering.b_p):
        _forward_part(xp, _swap(x)[:, part], w, geometry, lowering, y_KNPQ[:, part])
    if b is not None:
        y_KNPQ += b[:, None, None, None]
    return relu_forward(xp, y, 0.0, y) if rectify else y


def check_forward(
    x: Array,
    w: Array,
    b: Array | None,
    geometry: ConvGeometry,
    out: Array | None,
    op: str = "conv_forward",
) -> Shape:
    """Check the arguments of a forward pass; returns y's shape."""
    check_float(op, x=x, w=w, b=b)
    check_ndim(op, "x", x, "NCHW")
    _check_weights(op, w.shape, x.shape[1], geometry)
    check_shape(op, "b", b, w.shape[:1])
    shape = geometry.output_shape(tuple(x.shape), w.shape[0])
    check_out(op, "out", out, shape, x.dtype)
    return shape


def _forward_part(
    xp: Any, x_CNHW: Array, w: Array, geometry: ConvGeometry, lowering: Lowering, y_KNPQ: Array
) -> None:  # fmt: skip
    windows = lowering.lower(xp, x_CNHW, geometry)
    direct = y_KNPQ.strides[1] == y_KNPQ[0, 0].nbytes and y_KNPQ[0, 0].flags.c_contiguous
    for g in range(geometry.groups):
        y_g = _group(y_KNPQ, g, geometry.groups)
        w_g = _group(w, g, geometry.groups).reshape(len(y_g), -1)
        windows_g = _group(windows, g, geometry.groups).reshape(w_g.shape[1], -1)
        if direct:
            xp.matmul(w_g, windows_g, out=y_g.reshape(len(y_g), -1))
        else:
            y_g[...] = xp.matmul(w_g, windows_g).reshape(y_g.shape)


def backward_data(
    xp: Any, dy: Array, w: Array, geometry: ConvGeometry, in_shape: Shape, lowering: Lowering,
    out: Array | None,
) -> Array:  # fmt: skip
    """dy (N, K, OH, OW), w (K, C/groups, kh, kw) -> dx of shape `in_shape` (N, C, H, W)."""
    check_backward_data(dy, w, geometry, in_shape, out)
    dx = channel_major(xp, in_shape, dy.dtype) if out is None else out
    for part in _parts(in_shape[0], lowering.b_p):
        _backward_data_part(xp, _swap(dy)[:, part], w, geometry, lowering, _swap(dx)[:, part])
    return dx


def check_backward_data(
    dy: Array,
    w: Array,
    geometry: ConvGeometry,
    in_shape: Shape,
    out: Array | None,
    op: str = "conv_backward_data",
) -> None:
    """Check the arguments of the gradient by the images."""
    check_float(op, dy=dy, w=w)
    check_image(op, in_shape)
    _check_weights(op, w.shape, in_shape[1], geometry)
    _check_gradient(op, dy, in_shape, w.shape[0], geometry)
    check_out(op, "out", out, in_shape, dy.dtype)


def _backward_data_part(
    xp: Any, dy_KNPQ: Array, w: Array, geometry: ConvGeometry, lowering: Lowering, dx_CNHW: Array
) -> None:  # fmt: skip
    windows = xp.empty((dx_CNHW.shape[0], *geometry.kernel, *dy_KNPQ.shape[1:]), dy_KNPQ.dtype)
    for g in range(geometry.groups):
        dy_g = _group(dy_KNPQ, g, geometry.groups)
        w_g = _group(w, g, geometry.groups).reshape(len(dy_g), -1)
        windows_g = _group(windows, g, geometry.groups).reshape(w_g.shape[1], -1)
        xp.matmul(w_g.T, dy_g.reshape(len(dy_g), -1), out=windows_g)
    lowering.lift(xp, windows, geometry, dx_CNHW)


def backward_weights(
    xp: Any, x: Array, dy: Array, geometry: ConvGeometry, w_shape: Shape, lowering: Lowering,
    bias: bool, out_w: Array | None, out_b: Array | None,
) -> tuple[Array, Array | None]:  # fmt: skip
    """x (N, C, H, W), dy (N, K, OH, OW) -> dw (K, C/groups, kh, kw) and, with `bias`, db (K,)."""
    check_backward_weights(x, dy, geometry, w_shape, out_w, out_b)
    dw: Array = xp.empty(w_shape, x.dtype) if out_w is None else out_w
    for part in _parts(x.shape[0], lowering.b_p):
        _backward_weights_part(
            xp, _swap(x)[:, part], _swap(dy)[:, part], geometry, lowering, dw, part.start == 0
        )
    if not bias:
        return dw, None
    db: Array = xp.sum(_swap(dy), axis=(1, 2, 3), out=out_b)
    return dw, db


def check_backward_weights(
    x: Array,
    dy: Array,
    geometry: ConvGeometry,
    w_shape: Shape,
    out_w: Array | None,
    out_b: Array | None,
    op: str = "conv_backward_weights",
) -> None:
    """Check the arguments of the gradient by the weights."""
    check_float(op, x=x, dy=dy)
    check_ndim(op, "x", x, "NCHW")
    _check_weights(op, w_shape, x.shape[1], geometry)
    _check_gradient(op, dy, x.shape, w_shape[0], geometry)
    check_out(op, "out_w", out_w, w_shape, x.dtype)
    check_out(op, "out_b", out_b, w_shape[:1], x.dtype)


def _backward_weights_part(
    xp: Any,
    x_CNHW: Array,
    dy_KNPQ: Array,
    geometry: ConvGeometry,
    lowering: Lowering,
    dw: Array,
    first: bool,
) -> None:
    windows = lowering.lower(xp, x_CNHW, geometry)
    for g in range(geometry.groups):
        dw_g = _group(dw, g, geometry.groups)
        dy_g = _group(dy_KNPQ, g, geometry.groups).reshape(len(dw_g), -1)
        windows_g = _group(windows, g, geometry.groups)
        product = xp.matmul(dy_g, windows_g.reshape(-1, dy_g.shape[1]).T).reshape(dw_g.shape)
        if first:
            dw_g[...] = product
        else:
            dw_g += product
