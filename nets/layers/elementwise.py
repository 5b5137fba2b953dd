"""Activations and functions of single elements (Caffe's `ReLU`, `ELU`, `Sigmoid`, `TanH`, `Power`,
`Exp`, `Log`, ...).

Each layer's gradient is computed from its bottom or from its top. Products of x with a gate are in
`gates`, learned slopes in `prelu`, random masks in `dropout`.
"""

from collections.abc import Callable, Sequence

from nets.layers.base import Blobs, Gradients, Layer, Need, Run, Setup, Shape, Values, register
from ops import RELU, Activation, Array


class Elementwise(Layer):
    """A layer with one top of the bottom's shape. Subclasses define `_read`, `_forward` and
    `_backward`."""

    top_is_free = False
    planned = True
    activation: Activation | None = None  # the layer's function, if other layers can compute it

    def hand_down(self) -> None:
        """Leave values and gradients to the layer below, which computes the activation."""
        self.views = self.passes_gradient = True
        self.reads_tops = self.reads_bottoms = False

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        self._read()
        return [shapes[0]]

    def _read(self) -> None:
        """Read the layer's options from its prototxt."""

    def _forward(self, x: Array, out: Array) -> Array:
        raise NotImplementedError

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        raise NotImplementedError

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        return super().needs(bottoms, tops, training and not self.passes_gradient)

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        x = bottoms[0]
        if self.views:
            return [x]
        return [self._forward(x, x if self.in_place else self.buffer("top", x.shape))]

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        if self.passes_gradient:
            return grads, ()
        x = values.bottoms[0]
        y = values.tops[0]
        dy = grads[0]
        if not wanted[0] or dy is None:
            return [None], ()
        return [
            self._backward(dy, x, y, dy if self.over_gradient else self.buffer("bottom", x.shape))
        ], ()


@register("ReLU")
class ReLU(Elementwise):
    """max(x, 0) + negative_slope * min(x, 0)."""

    replayable = True
    in_place_ok = True
    top_is_free = True
    reads_bottoms = False
    gradient_in_place_ok = True
    takes_bfloat16 = True
    absorbed = False  # the layer below rectifies as it writes
    # of the Scale below a sum: takes the top's gradients, the top and a destination
    gradient: Callable[[Sequence[Array], Array, Array], Array] | None = None

    def _read(self) -> None:
        self.slope = float(self.proto.relu_param.negative_slope)
        if self.slope < 0:
            raise self.error(
                "relu_param.negative_slope", (f"found {self.slope:g}, expected a number >= 0")
            )
        self.activation = RELU if self.slope == 0 else None

    def hand_on(self) -> None:
        """Leave the gradient to another layer, below or above, which rectifies it."""
        self.passes_gradient = True
        self.reads_tops = False

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        given = [grad for grad in grads if grad is not None]
        if self.gradient is None or self.passes_gradient or not wanted[0] or not given:
            return super().backward(grads, values, run, wanted, out)
        y = values.tops[0]
        into = given[0] if self.over_gradient else self.buffer("bottom", y.shape)
        return [self.gradient(given, y, into)], ()

    def _forward(self, x: Array, out: Array) -> Array:
        return x if self.absorbed else self.ops.relu_forward(x, self.slope, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.relu_backward(dy, y, self.slope, out=out)  # y has the sign of x


@register("ELU")
class ELU(Elementwise):
    """x where x > 0, else alpha * (exp(x) - 1)."""

    def _read(self) -> None:
        self.alpha = float(self.proto.elu_param.alpha)

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.elu_forward(x, self.alpha, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.elu_backward(dy, x, y, self.alpha, out=out)


@register("Sigmoid")
class Sigmoid(Elementwise):
    """1 / (1 + exp(-x))."""

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.sigmoid_forward(x, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.sigmoid_backward(dy, y, out=out)


@register("TanH")
class TanH(Elementwise):
    """The hyperbolic tangent."""

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.tanh_forward(x, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.tanh_backward(dy, y, out=out)


@register("BNLL")
class BNLL(Elementwise):
    """log(1 + exp(x))."""

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.bnll_forward(x, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.bnll_backward(dy, x, out=out)


@register("AbsVal")
class AbsVal(Elementwise):
    """|x|."""

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.absolute_forward(x, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.absolute_backward(dy, x, out=out)


@register("Power")
class Power(Elementwise):
    """(shift + scale * x) ^ power."""

    def _read(self) -> None:
        p = self.proto.power_param
        self.power = float(p.power)
        self.scale = float(p.scale)
        self.shift = float(p.shift)

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.power_forward(
            x, power=self.power, scale=self.scale, shift=self.shift, out=out
        )

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.power_backward(
            dy, x, power=self.power, scale=self.scale, shift=self.shift, out=out
        )


@register("Exp")
class Exp(Elementwise):
    """base ^ (shift + scale * x). Base -1 (the default) means e."""

    def _read(self) -> None:
        p = self.proto.exp_param
        self.base = _base(self, "exp_param", p.base)
        self.scale = float(p.scale)
        self.shift = float(p.shift)

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.exp_forward(x, base=self.base, scale=self.scale, shift=self.shift, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.exp_backward(dy, y, base=self.base, scale=self.scale, out=out)


@register("Log")
class Log(Elementwise):
    """The logarithm of shift + scale * x. Base -1 (the default) means e."""

    def _read(self) -> None:
        p = self.proto.log_param
        self.base = _base(self, "log_param", p.base)
        self.scale = float(p.scale)
        self.shift = float(p.shift)
        if self.base == 1:
            raise self.error(
                "log_param.base", ("found 1, expected another number: its logarithm is 0")
            )

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.log_forward(x, base=self.base, scale=self.scale, shift=self.shift, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.log_backward(
            dy, x, base=self.base, scale=self.scale, shift=self.shift, out=out
        )


@register("Threshold")
class Threshold(Elementwise):
    """1 where x > threshold, else 0. No gradient passes."""

    differentiable = False

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.threshold_forward(x, float(self.proto.threshold_param.threshold), out=out)


@register("Clip")
class Clip(Elementwise):
    """x, but at least `min` and at most `max`."""

    replayable = True
    top_is_free = True
    reads_tops = False
    gradient_in_place_ok = True
    takes_bfloat16 = True

    def _read(self) -> None:
        p = self.proto.clip_param
        self.least = float(p.min)
        self.most = float(p.max)
        self.activation = Activation("clip", (self.least, self.most))
        if self.least > self.most:
            raise self.error(
                "clip_param.min", (f"found {self.least:g}, expected at most max, {self.most:g}")
            )

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.clip_forward(x, self.least, self.most, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.clip_backward(dy, x, self.least, self.most, out=out)


def _base(layer: Layer, block: str, base: float) -> float:
    """Return the base after a check: it must be positive, or -1 for e."""
    if base != -1 and base <= 0:
        raise layer.error(
            f"{block}.base", (f"found {base:g}, expected a positive number, or -1 for e")
        )
    return float(base)
