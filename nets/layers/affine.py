"""Multiplication by factors and addition of biases along some axes (Caffe's `Scale`, `Bias`). The
factors are parameters or a second bottom."""

from collections.abc import Sequence
from typing import Any

from nets.layers.base import Blobs, Gradients, Layer, Run, Setup, Shape, Values, register
from nets.layers.normalise import BatchNorm
from nets.layers.shape import axis_of
from nets.schema import caffe_pb2 as caffe
from ops import Activation, Array


def _covered(layer: Layer, block: str, shapes: list[Shape]) -> tuple[int, Shape]:
    """Return (axis, shape of the factors): the shape of the second bottom, or of `num_axes` axes of
    the first."""
    message: Any = getattr(layer.proto, block)
    shape = shapes[0]
    if len(shapes) == 2:
        axis = axis_of(layer, f"{block}.axis", message.axis, shape) if shapes[1] else 0
        part = shapes[1]
    else:
        if message.num_axes < -1:
            raise layer.error(
                f"{block}.num_axes", (f"found {message.num_axes}, expected an integer >= -1")
            )
        axis = axis_of(layer, f"{block}.axis", message.axis, shape) if message.num_axes else 0
        end = len(shape) if message.num_axes == -1 else axis + message.num_axes
        if end > len(shape):
            raise layer.error(
                f"{block}.num_axes", (f"found {message.num_axes}, but the bottom has shape {shape}")
            )
        part = shape[axis:end]
    if shape[axis : axis + len(part)] != part:
        raise layer.error(
            "bottom",
            (f"found shapes {shape} and {part}, expected the second among the first's axes"),
        )
    return axis, part


@register("Scale")
class Scale(Layer):
    """x * scale (+ bias), along the axes of x from `axis` on. The scale is a parameter or the
    second bottom."""

    bottoms = (1, 2)
    planned = True
    replayable = True
    reads_tops = False
    gradient_in_place_ok = True
    norm: BatchNorm | None = None  # the layer below, if this layer does its work (`fusion`)
    activation: Activation | None = None  # of the layer above, if this layer does its work
    sums: tuple[Array, Array] | None = None  # of this pass's gradient, from `rectified`

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        p = self.proto.scale_param
        self.axis, self.part = _covered(self, "scale_param", shapes)
        if len(shapes) == 1:
            one = (
                p.filler
                if p.HasField("filler")
                else caffe.FillerParameter(type="constant", value=1)
            )
            self.declare("scale", self.part, one, "scale_param.filler")
        self.bias = p.bias_term
        if self.bias:
            self.declare("bias", self.part, p.bias_filler, "scale_param.bias_filler")
        return [shapes[0]]

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        """With factors per channel, or per plane if the second bottom has them. The gradient of
        that bottom is a sum."""
        planes = not self.bias and self.axis == 0 and len(self.part) == 2
        return bottom != 1 and (planes or (self.axis == 1 and len(self.part) == 1))

    @property
    def per_channel(self) -> bool:
        """Whether scale and bias are learned and have one number per channel."""
        return len(self.params) == 2 and self.axis == 1 and len(self.part) == 1

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        if self.norm is not None:
            addend = bottoms[1] if len(bottoms) > 1 else None
            y, _, _ = self.ops.norm_scale_forward(
                bottoms[0],
                blobs[0],
                blobs[1],
                eps=self.norm.eps,
                activation=self.activation,
                addend=addend,
                out=self.buffer("top", bottoms[0].shape),
                **self.norm.statistics,
            )
            self.added = addend is not None
            self.sums = None
            self.normed = bottoms[0]
            return [y]
        gamma = blobs[0] if len(bottoms) == 1 else bottoms[1]
        beta = blobs[-1] if self.bias else None
        out = self.buffer("top", bottoms[0].shape)
        return [self.ops.scale_forward(bottoms[0], gamma, beta, axis=self.axis, out=out)]

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
        learned = len(values.bottoms) == 1
        assert dy is not None
        if self.norm is not None:
            return self._backward_joined(self.norm, dy, x, values.blobs, out)
        gamma = values.blobs[0] if learned else values.bottoms[1]
        dgamma, dbeta = self.ops.scale_backward_weights(
            x,
            dy,
            self.part,
            axis=self.axis,
            bias=self.bias,
            out_gamma=out[0] if out and learned else None,
            out_beta=out[-1] if out and self.bias else None,
        )
        dx = None
        if wanted[0]:
            into = dy if self.over_gradient else self.buffer("bottom", x.shape)
            dx = self.ops.scale_backward_data(dy, gamma, axis=self.axis, out=into)
        params = ((dgamma,) if learned else ()) + (() if dbeta is None else (dbeta,))
        return [dx] if learned else [dx, dgamma if wanted[1] else None], params

    def rectified(self, gradients: Sequence[Array], y: Array, out: Array) -> Array:
        """Compute the gradient of the sum of this layer's top and an addend, from the gradients of
        the sum's ReLU and the ReLU's top. Keeps its sums for `backward`."""
        assert self.norm is not None
        x = self.normed
        sums, products = (self.buffer(key, x.shape[1:2]) for key in ("sums", "products"))
        dy, *_ = self.ops.rectified_sums(
            gradients, y, x, self.norm.mean, out=out, out_sums=sums, out_products=products
        )
        self.sums = (sums, products)
        return dy

    def _backward_joined(
        self, norm: BatchNorm, dy: Array, x: Array, blobs: Blobs, out: Blobs | None
    ) -> Gradients:
        """Compute the gradient of BatchNorm's bottom from dy. With an addend, the ReLU has already
        rectified dy."""
        dx, dgamma, dbeta = self.ops.norm_scale_backward(
            dy,
            x,
            blobs[0],
            blobs[1],
            norm.mean,
            norm.variance,
            eps=norm.eps,
            fixed=norm.fixed,
            activation=None if self.added else self.activation,
            sums=self.sums,
            out=dy if self.over_gradient else self.buffer("bottom", x.shape),
            out_gamma=out[0] if out else None,
            out_beta=out[1] if out else None,
        )
        return [dx], (dgamma, dbeta)


@register("Bias")
class Bias(Layer):
    """x + bias, along the axes of x from `axis` on. The bias is a parameter or the second
    bottom."""

    bottoms = (1, 2)
    passes_gradient = True

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self.axis, self.part = _covered(self, "bias_param", shapes)
        if len(shapes) == 1:
            self.declare("bias", self.part, self.proto.bias_param.filler, "bias_param.filler")
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        bias = blobs[0] if len(bottoms) == 1 else bottoms[1]
        return [
            self.ops.bias_forward(
                bottoms[0], bias, axis=self.axis, out=self.buffer("top", bottoms[0].shape)
            )
        ]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        dy = grads[0]
        learned = len(values.bottoms) == 1
        assert dy is not None
        db = self.ops.bias_backward(dy, self.part, axis=self.axis, out=out[0] if out else None)
        dx = dy if wanted[0] else None
        return ([dx], (db,)) if learned else ([dx, db if wanted[1] else None], ())
