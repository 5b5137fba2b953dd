"""Fully connected layers and the reshaping that goes with them (Caffe's `InnerProduct`, `Flatten`).

What lives here: their parameters and shapes. What never: the arithmetic (`ops`).
"""

import math

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from ops import Array


@register("InnerProduct")
class InnerProduct(Layer):
    """x (N, ...), weight (O, D), bias (O,) -> y (N, O): all axes from `axis` (default 1) are one of length
    D.
    """

    is_dense = True

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p, block = self.proto.inner_product_param, "inner_product_param"
        if p.num_output < 1:
            raise self.error(f"{block}.num_output", f"found {p.num_output}, expected an integer >= 1")
        if p.transpose:
            raise self.error(f"{block}.transpose", "transposed weights are not supported yet")
        axis = axis_of(self, f"{block}.axis", p.axis, shapes[0])
        outer, self.width = shapes[0][:axis], math.prod(shapes[0][axis:])
        self.declare("weight", (p.num_output, self.width), p.weight_filler, f"{block}.weight_filler")
        if p.bias_term:
            self.declare("bias", (p.num_output,), p.bias_filler, f"{block}.bias_filler")
        self.rows, self.top_shape = math.prod(outer), (*outer, int(p.num_output))
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        bias = blobs[1] if len(self.params) > 1 else None
        y_NO = self.buffer("top", (self.rows, self.top_shape[-1]))
        self.ops.dense_forward(bottoms[0].reshape(self.rows, self.width), blobs[0], bias, out=y_NO)
        return [y_NO.reshape(self.top_shape)]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        x, dy = values.bottoms[0], grads[0]
        assert dy is not None
        dy_NO, bias = dy.reshape(self.rows, -1), len(self.params) > 1
        dw, db = self.ops.dense_backward_weights(
            x.reshape(self.rows, self.width), dy_NO, bias=bias,
            out_w=out[0] if out else None, out_b=out[1] if out and bias else None,
        )  # fmt: skip
        dx = None
        if wanted[0]:
            dx_ND = self.buffer("bottom", (self.rows, self.width))
            dx = self.ops.dense_backward_data(dy_NO, values.blobs[0], out=dx_ND).reshape(x.shape)
        return [dx], (dw,) if db is None else (dw, db)


@register("Flatten")
class Flatten(Layer):
    """x (N, C, H, W) -> (N, C*H*W); `axis` and `end_axis` choose which axes become one. No copy is made."""

    top_is_free = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p, shape = self.proto.flatten_param, shapes[0]
        first = axis_of(self, "flatten_param.axis", p.axis, shape)
        last = axis_of(self, "flatten_param.end_axis", p.end_axis, shape)
        if last < first:
            raise self.error("flatten_param.end_axis", f"found {p.end_axis}, expected an axis from {first} on")
        self.top_shape = (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
        return [self.top_shape]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        return [bottoms[0].reshape(self.top_shape)]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        dy = grads[0]
        return [None if dy is None else dy.reshape(values.bottoms[0].shape)], ()


def axis_of(layer: Layer, key: str, axis: int, shape: Shape) -> int:
    """Return `axis` counted from the front (negative counts from the end); NetError when `shape` has no such
    axis.
    """
    if not -len(shape) <= axis < len(shape):
        raise layer.error(key, f"found {axis}, but the bottom has shape {shape}")
    return axis % len(shape)
