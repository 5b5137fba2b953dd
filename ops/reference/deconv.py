"""Transposed convolution (Caffe's Deconvolution): a convolution's passes with the roles of input
and output swapped.

Weights are (C, K/groups, kh, kw), C the input's channels. This module works out only the shapes:
the backend's own convolution does the arithmetic.
"""

from __future__ import annotations

from typing import Any

from ops.errors import Array, OpsError, Shape, check_float, check_ndim, check_out, check_shape
from ops.geometry import ConvGeometry


def output_shape(op: str, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry) -> Shape:
    """(N, C, H, W) and the weights' shape -> (N, K, OH, OW)."""
    groups = geometry.groups
    kernel = geometry.kernel
    if (
        len(w_shape) != 4
        or tuple(w_shape[2:]) != kernel
        or len(in_shape) != 4
        or w_shape[0] != in_shape[1]
    ):
        channels = in_shape[1] if len(in_shape) == 4 else "C"
        raise OpsError(
            f"{op}: weights have shape {tuple(w_shape)} and the input {tuple(in_shape)}, expected "
            f"({channels} channels, outputs / {groups} groups, {kernel[0]}, {kernel[1]}) and "
            "(N, C, H, W)"
        )
    return geometry.transposed_shape(tuple(in_shape), w_shape[1] * groups)


def check_forward(
    x: Array, w: Array, b: Array | None, geometry: ConvGeometry, out: Array | None
) -> Shape:
    """Check the arguments of a forward pass; returns y's shape."""
    op = "deconv_forward"
    check_float(op, x=x, w=w, b=b)
    shape = output_shape(op, x.shape, w.shape, geometry)
    check_shape(op, "b", b, shape[1:2])
    check_out(op, "out", out, shape, x.dtype)
    return shape


def check_gradient(
    op: str, dy: Array, in_shape: Shape, w_shape: Shape, geometry: ConvGeometry
) -> None:
    """Check that dy has the shape of the result that `in_shape` gives with these weights."""
    check_ndim(op, "dy", dy, "NKHW")
    check_shape(op, "dy", dy, output_shape(op, in_shape, w_shape, geometry))


def bias_gradient(xp: Any, dy: Array, out: Array | None) -> Array:
    """dy (N, K, OH, OW) summed to (K,)."""
    check_out("deconv_backward_weights", "out_b", out, dy.shape[1:2], dy.dtype)
    db: Array = xp.sum(dy, axis=(0, 2, 3), out=out)
    return db
