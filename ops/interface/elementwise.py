"""Operations that treat elements one by one, or along broadcast axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ops.errors import Array, Shape
from ops.reference import activation, broadcast, eltwise, gates, philox, pointwise


class ElementwiseOps:
    """Activations, smooth functions, dropout, scale and bias, sums and products. out may be an
    input."""

    xp: Any

    def relu_forward(
        self, x: Array, negative_slope: float = 0.0, out: Array | None = None
    ) -> Array:
        """max(x, 0) + negative_slope * min(x, 0); out may be x."""
        return activation.relu_forward(self.xp, x, negative_slope, out)

    def relu_backward(
        self, dy: Array, y_or_x: Array, negative_slope: float = 0.0, out: Array | None = None
    ) -> Array:
        """dy where y_or_x > 0, else negative_slope * dy; out may be dy. y can stand for x if the
        slope is >= 0."""
        return activation.relu_backward(self.xp, dy, y_or_x, negative_slope, out)

    def prelu_forward(self, x: Array, slope: Array, out: Array | None = None) -> Array:
        """x where x > 0, else slope * x; x (N, C, ...), slope (C,) or one element; out may be x."""
        return activation.prelu_forward(self.xp, x, slope, out)

    def prelu_backward_data(
        self, dy: Array, x: Array, slope: Array, out: Array | None = None
    ) -> Array:
        """dy where x > 0, else slope * dy."""
        return activation.prelu_backward_data(self.xp, dy, x, slope, out)

    def prelu_backward_slope(
        self, dy: Array, x: Array, slope_shape: Shape, out: Array | None = None
    ) -> Array:
        """The slopes' gradient, of shape `slope_shape`."""
        return activation.prelu_backward_slope(self.xp, dy, x, slope_shape, out)

    def elu_forward(self, x: Array, alpha: float = 1.0, out: Array | None = None) -> Array:
        """x where x > 0, else alpha * (exp(x) - 1)."""
        return activation.elu_forward(self.xp, x, alpha, out)

    def elu_backward(
        self, dy: Array, x: Array, y: Array, alpha: float = 1.0, out: Array | None = None
    ) -> Array:
        """dy where x > 0, else dy * (y + alpha); y may stand for x where alpha >= 0."""
        return activation.elu_backward(self.xp, dy, x, y, alpha, out)

    def threshold_forward(
        self, x: Array, threshold: float = 0.0, out: Array | None = None
    ) -> Array:
        """1 where x > threshold, else 0."""
        return activation.threshold_forward(self.xp, x, threshold, out)

    def clip_forward(self, x: Array, least: float, most: float, out: Array | None = None) -> Array:
        """x, but at least `least` and at most `most`; 0 and 6 make ReLU6."""
        return activation.clip_forward(self.xp, x, least, most, out)

    def clip_backward(
        self, dy: Array, x: Array, least: float, most: float, out: Array | None = None
    ) -> Array:
        """dy where least <= x <= most, else 0."""
        return activation.clip_backward(self.xp, dy, x, least, most, out)

    def sigmoid_forward(self, x: Array, out: Array | None = None) -> Array:
        """1 / (1 + exp(-x))."""
        return pointwise.sigmoid_forward(self.xp, x, out)

    def sigmoid_backward(self, dy: Array, y: Array, out: Array | None = None) -> Array:
        """dy * y * (1 - y)."""
        return pointwise.sigmoid_backward(self.xp, dy, y, out)

    def tanh_forward(self, x: Array, out: Array | None = None) -> Array:
        """tanh(x)."""
        return pointwise.tanh_forward(self.xp, x, out)

    def tanh_backward(self, dy: Array, y: Array, out: Array | None = None) -> Array:
        """dy * (1 - y^2)."""
        return pointwise.tanh_backward(self.xp, dy, y, out)

    def bnll_forward(self, x: Array, out: Array | None = None) -> Array:
        """log(1 + exp(x))."""
        return pointwise.bnll_forward(self.xp, x, out)

    def bnll_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        """dy * sigmoid(x)."""
        return pointwise.bnll_backward(self.xp, dy, x, out)

    def swish_forward(self, x: Array, beta: float = 1.0, out: Array | None = None) -> Array:
        """x * sigmoid(beta * x); beta 1 is SiLU."""
        return gates.swish_forward(self.xp, x, beta, out)

    def swish_backward(
        self, dy: Array, x: Array, beta: float = 1.0, out: Array | None = None
    ) -> Array:
        """dy * g * (1 + beta * x * (1 - g)) with g = sigmoid(beta * x)."""
        return gates.swish_backward(self.xp, dy, x, beta, out)

    def gelu_forward(self, x: Array, *, tanh: bool = False, out: Array | None = None) -> Array:
        """x * P(a standard normal number is below x), or with `tanh` the usual approximation."""
        return gates.gelu_forward(self.xp, x, tanh, out)

    def gelu_backward(
        self, dy: Array, x: Array, *, tanh: bool = False, out: Array | None = None
    ) -> Array:
        """dx from x."""
        return gates.gelu_backward(self.xp, dy, x, tanh, out)

    def hard_sigmoid_forward(self, x: Array, out: Array | None = None) -> Array:
        """(x + 3) / 6, cut to [0, 1]."""
        return gates.hard_sigmoid_forward(self.xp, x, out)

    def hard_sigmoid_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        """dy / 6 where -3 < x < 3, else 0."""
        return gates.hard_sigmoid_backward(self.xp, dy, x, out)

    def hard_swish_forward(self, x: Array, out: Array | None = None) -> Array:
        """x * hard_sigmoid(x)."""
        return gates.hard_swish_forward(self.xp, x, out)

    def hard_swish_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        """dx from x."""
        return gates.hard_swish_backward(self.xp, dy, x, out)

    def power_forward(
        self,
        x: Array,
        power: float = 1.0,
        scale: float = 1.0,
        shift: float = 0.0,
        out: Array | None = None,
    ) -> Array:
        """(shift + scale * x) ^ power."""
        return pointwise.power_forward(self.xp, x, power, scale, shift, out)

    def power_backward(
        self,
        dy: Array,
        x: Array,
        power: float = 1.0,
        scale: float = 1.0,
        shift: float = 0.0,
        out: Array | None = None,
    ) -> Array:
        """dy * power * scale * (shift + scale * x) ^ (power - 1)."""
        return pointwise.power_backward(self.xp, dy, x, power, scale, shift, out)

    def exp_forward(
        self,
        x: Array,
        base: float = -1.0,
        scale: float = 1.0,
        shift: float = 0.0,
        out: Array | None = None,
    ) -> Array:
        """base ^ (shift + scale * x); base -1 is e."""
        return pointwise.exp_forward(self.xp, x, base, scale, shift, out)

    def exp_backward(
        self, dy: Array, y: Array, base: float = -1.0, scale: float = 1.0, out: Array | None = None
    ) -> Array:
        """dy * y * scale * log(base)."""
        return pointwise.exp_backward(self.xp, dy, y, base, scale, out)

    def log_forward(
        self,
        x: Array,
        base: float = -1.0,
        scale: float = 1.0,
        shift: float = 0.0,
        out: Array | None = None,
    ) -> Array:
        """log(shift + scale * x) to that base; base -1 is e."""
        return pointwise.log_forward(self.xp, x, base, scale, shift, out)

    def log_backward(
        self,
        dy: Array,
        x: Array,
        base: float = -1.0,
        scale: float = 1.0,
        shift: float = 0.0,
        out: Array | None = None,
    ) -> Array:
        """dy * scale / (log(base) * (shift + scale * x))."""
        return pointwise.log_backward(self.xp, dy, x, base, scale, shift, out)

    def absolute_forward(self, x: Array, out: Array | None = None) -> Array:
        """|x|."""
        return pointwise.absolute_forward(self.xp, x, out)

    def absolute_backward(self, dy: Array, x: Array, out: Array | None = None) -> Array:
        """dy * sign(x)."""
        return pointwise.absolute_backward(self.xp, dy, x, out)

    def dropout(
        self, x: Array, ratio: float, key: int, first: int = 0, out: Array | None = None
    ) -> Array:
        """x / (1 - ratio) where the number drawn for an element is at least ratio, else 0. Forward
        and backward are the same.

        The number depends only on (key, first + row, place in the row), see reference.philox. key
        has 64 bits, a row number 32.
        """
        return philox.dropout(self.xp, x, ratio, key, first, out)

    def drop_rows(
        self, x: Array, ratio: float, key: int, first: int = 0, out: Array | None = None
    ) -> Array:
        """x / (1 - ratio) in the rows whose number is at least ratio, else 0. Forward and backward
        are the same. The numbers are those of `dropout` at place 0."""
        return philox.drop_rows(self.xp, x, ratio, key, first, out)

    def scale_forward(
        self,
        x: Array,
        gamma: Array,
        beta: Array | None = None,
        axis: int = 1,
        out: Array | None = None,
    ) -> Array:
        """x * gamma (+ beta); gamma and beta have the shape of x's axes from `axis` on."""
        return broadcast.scale_forward(self.xp, x, gamma, beta, axis, out)

    def scale_backward_data(
        self, dy: Array, gamma: Array, axis: int = 1, out: Array | None = None
    ) -> Array:
        """dy * gamma."""
        return broadcast.scale_backward_data(self.xp, dy, gamma, axis, out)

    def scale_backward_weights(
        self,
        x: Array,
        dy: Array,
        shape: Shape,
        axis: int = 1,
        *,
        bias: bool,
        out_gamma: Array | None = None,
        out_beta: Array | None = None,
    ) -> tuple[Array, Array | None]:
        """dgamma and dbeta (None without `bias`), both of `shape`."""
        return broadcast.scale_backward_weights(
            self.xp, x, dy, shape, axis, bias, out_gamma, out_beta
        )

    def bias_forward(self, x: Array, b: Array, axis: int = 1, out: Array | None = None) -> Array:
        """x + b; b has the shape of x's axes from `axis` on."""
        return broadcast.bias_forward(self.xp, x, b, axis, out)

    def bias_backward(
        self, dy: Array, shape: Shape, axis: int = 1, out: Array | None = None
    ) -> Array:
        """db of `shape`."""
        return broadcast.bias_backward(self.xp, dy, shape, axis, out)

    def eltwise_forward(
        self,
        inputs: Sequence[Array],
        *,
        operation: str = "SUM",
        coeffs: Sequence[float] | None = None,
        out: Array | None = None,
        which: Array | None = None,
    ) -> tuple[Array, Array | None]:
        """PROD, SUM (weighted by coeffs) or MAX -> y and, for MAX, the int32 number of the input
        that won."""
        return eltwise.forward(self.xp, inputs, operation, coeffs, out, which)

    def eltwise_backward(
        self,
        dy: Array,
        inputs: Sequence[Array],
        *,
        operation: str = "SUM",
        coeffs: Sequence[float] | None = None,
        which: Array | None = None,
        outs: Sequence[Array | None] | None = None,
    ) -> list[Array]:
        """One gradient per input; MAX needs the forward pass's `which`."""
        return eltwise.backward(self.xp, dy, inputs, operation, coeffs, which, outs)
