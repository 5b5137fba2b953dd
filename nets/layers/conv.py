"""Convolution (Caffe's `Convolution`): groups, dilation, rectangular kernels.

What lives here: its parameters and shapes. What never: the arithmetic (`ops`).
"""

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.windows import image, pair
from ops import Array, ConvGeometry, OpsError


@register("Convolution")
class Convolution(Layer):
    """x (N, C, H, W), weight (K, C/group, kh, kw), bias (K,) -> y (N, K, OH, OW), sizes rounded down."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p, block = self.proto.convolution_param, "convolution_param"
        shape = image(self, shapes[0])
        if p.num_output < 1:
            raise self.error(f"{block}.num_output", f"found {p.num_output}, expected an integer >= 1")
        if p.axis != 1 or p.force_nd_im2col:
            raise self.error(f"{block}.axis", "only two-dimensional convolution over axis 1 is supported")
        if p.group < 1 or shape[1] % p.group or p.num_output % p.group:
            text = f"found {p.group}, expected a divisor of {shape[1]} inputs and {p.num_output} outputs"
            raise self.error(f"{block}.group", text)
        kernel = pair(self, block, "kernel_size", None)
        try:
            self.geometry = ConvGeometry(
                kernel,
                pair(self, block, "stride", 1),
                pair(self, block, "pad", 0),
                pair(self, block, "dilation", 1),
                int(p.group),
            )
            top = self.geometry.output_shape(shape, int(p.num_output))
        except OpsError as error:
            raise self.error(f"{block}.kernel_size", str(error)) from None
        self.declare("weight", (p.num_output, shape[1] // p.group, *kernel), p.weight_filler, f"{block}.weight_filler")
        if p.bias_term:
            self.declare("bias", (p.num_output,), p.bias_filler, f"{block}.bias_filler")
        self.top_shape = top
        return [top]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        bias = blobs[1] if len(self.params) > 1 else None
        out = self.buffer("top", self.top_shape)
        return [self.ops.conv_forward(bottoms[0], blobs[0], bias, self.geometry, out=out)]

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        x, dy = values.bottoms[0], grads[0]
        assert dy is not None
        bias = len(self.params) > 1
        dw, db = self.ops.conv_backward_weights(
            x, dy, self.geometry, self.params[0].shape, bias=bias,
            out_w=out[0] if out else None, out_b=out[1] if out and bias else None,
        )  # fmt: skip
        dx = None
        if wanted[0]:
            dx = self.buffer("bottom", x.shape)
            self.ops.conv_backward_data(dy, values.blobs[0], self.geometry, x.shape, out=dx)
        return [dx], (dw,) if db is None else (dw, db)
