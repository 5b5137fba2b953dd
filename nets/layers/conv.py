"""Convolution (Caffe's `Convolution`): groups, dilation, rectangular kernels. Also the base class
of convolution and its transpose."""

import math
from collections.abc import Callable, Sequence

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.windows import image, pair
from ops import Array, ConvGeometry, OpsError

BLOCK = "convolution_param"
Backward = tuple[Callable[..., tuple[Array, Array | None]], Callable[..., Array]]


class Windowed(Layer):
    """The common part of Convolution and Deconvolution: the windows, and the parameters weight and
    bias (K,)."""

    planned = True

    reads_tops = False
    top_shape: Shape

    @property
    def replayable(self) -> bool:  # type: ignore[override]  # zeros are no operation
        """Whether the layer's passes may be replayed."""
        return self.frozen or not self.unlearned(0)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.convolution_param
        shape = image(self, shapes[0])
        if p.num_output < 1:
            raise self.error(
                f"{BLOCK}.num_output", (f"found {p.num_output}, expected an integer >= 1")
            )
        groups = self._groups(shape[1])
        kernel = pair(self, BLOCK, "kernel_size", None)
        stride, pad, dilation = (
            pair(self, BLOCK, *key) for key in (("stride", 1), ("pad", 0), ("dilation", 1))
        )
        try:
            self.geometry = ConvGeometry(kernel, stride, pad, dilation, groups)
            weight, self.top_shape = self._shapes(shape, int(p.num_output))
        except OpsError as error:
            raise self.error(f"{BLOCK}.kernel_size", str(error)) from None
        self.declare("weight", weight, p.weight_filler, f"{BLOCK}.weight_filler")
        if p.bias_term:
            self.declare("bias", (p.num_output,), p.bias_filler, f"{BLOCK}.bias_filler")
        return [self.top_shape]

    def _groups(self, channels: int) -> int:
        """Return the number of groups for this number of channels, after a check."""
        p = self.proto.convolution_param
        if p.group < 1 or channels % p.group or p.num_output % p.group:
            text = (
                f"found {p.group}, expected a divisor of {channels} inputs and "
                f"{p.num_output} outputs"
            )
            raise self.error(f"{BLOCK}.group", text)
        return int(p.group)

    def _shapes(self, shape: Shape, outputs: int) -> tuple[Shape, Shape]:
        """Return the shapes of the weight and of the top."""
        raise NotImplementedError

    def _back(self) -> Backward:
        """Return two operations: the gradients of the parameters, and the gradient of the
        bottom."""
        raise NotImplementedError

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        x = values.bottoms[0]
        dy = grads[0]
        assert dy is not None
        params = () if self.frozen else self._of_parameters(x, dy, out)
        dx = None
        if wanted[0]:
            _, of_bottom = self._back()
            dx = self.buffer("bottom", x.shape)
            of_bottom(dy, values.blobs[0], self.geometry, x.shape, out=dx)
        return [dx], params

    def _of_parameters(self, x: Array, dy: Array, out: Blobs | None) -> tuple[Array, ...]:
        """Return the gradients of the weight and the bias, in `out` if it is given."""
        bias = len(self.params) > 1
        out_b = out[1] if out and bias else None
        db: Array | None = None
        if self.unlearned(0):
            dw = self.no_gradient(0, out)
            if bias:
                db = self.ops.channel_sums(dy, out=out_b)
        else:
            of_parameters, _ = self._back()
            dw, db = of_parameters(
                x, dy, self.geometry, self.params[0].shape, bias=bias,
                out_w=out[0] if out else None, out_b=out_b,
            )  # fmt: skip
        return (dw,) if db is None else (dw, db)


@register("Convolution")
class Convolution(Windowed):
    """x (N, C, H, W), weight (K, C/group, kh, kw), bias (K,) -> y (N, K, OH, OW). Sizes are rounded
    down."""

    replayable = Windowed.replayable
    rectifies = True
    takes_bfloat16 = True

    def products(self, bottoms: Sequence[Shape], tops: Sequence[Shape]) -> int:
        return math.prod(tops[0]) * math.prod(self.params[0].shape[1:])

    def scratch(self, bottoms: Sequence[Shape], training: bool) -> int:
        return self.ops.conv_scratch(
            bottoms[0], self.params[0].shape, self.geometry,
            training=training, narrow=bool(self.dtypes),
        )  # fmt: skip

    def _shapes(self, shape: Shape, outputs: int) -> tuple[Shape, Shape]:
        weight = (outputs, shape[1] // self.geometry.groups, *self.geometry.kernel)
        return weight, self.geometry.output_shape(shape, outputs)

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        bias = blobs[1] if len(self.params) > 1 else None
        out = self.buffer("top", self.top_shape)
        return [
            self._forward(bottoms[0], blobs[0], bias, self.geometry, out=out, rectify=self.rectify)
        ]

    @property
    def _forward(self) -> Callable[..., Array]:
        return self.ops.conv_forward

    def _back(self) -> Backward:
        return self.ops.conv_backward_weights, self.ops.conv_backward_data
