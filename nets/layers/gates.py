"""Activations that multiply x by a gate between 0 and 1: Caffe's `Swish`, and `SiLU`, `GELU` and
`HardSwish`. The gate `HardSigmoid` too."""

from nets.layers.base import register
from nets.layers.elementwise import Elementwise
from nets.schema import caffe_pb2 as caffe
from ops import Activation, Array


class Gate(Elementwise):
    """A layer whose gradient is computed from its bottom alone."""

    top_is_free = True
    reads_tops = False
    gradient_in_place_ok = True
    takes_bfloat16 = True


@register("Swish")
class Swish(Gate):
    """x * sigmoid(beta * x)."""

    replayable = True
    beta = 1.0

    def _read(self) -> None:
        self.beta = float(self.proto.swish_param.beta)
        self.activation = Activation("swish", (self.beta,))

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.swish_forward(x, self.beta, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.swish_backward(dy, x, self.beta, out=out)


@register("SiLU")
class SiLU(Swish):
    """x * sigmoid(x): Swish with beta 1 (Elfwing et al. 2017)."""

    replayable = True
    of_caffe = False
    activation = Activation("swish", (1.0,))

    def _read(self) -> None:
        pass


@register("GELU")
class GELU(Gate):
    """x times the probability that a standard normal number is below x (`approximate: ERF`), or
    nearly so, x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (`TANH`; Hendrycks and Gimpel
    2016)."""

    replayable = True
    of_caffe = False

    def _read(self) -> None:
        kinds = caffe.GELUParameter
        self.tanh = self.proto.gelu_param.approximate == kinds.TANH
        self.activation = None if self.tanh else Activation("gelu")

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.gelu_forward(x, tanh=self.tanh, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.gelu_backward(dy, x, tanh=self.tanh, out=out)


@register("HardSigmoid")
class HardSigmoid(Gate):
    """(x + 3) / 6, but at least 0 and at most 1 (Howard et al. 2019)."""

    replayable = True
    of_caffe = False

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.hard_sigmoid_forward(x, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.hard_sigmoid_backward(dy, x, out=out)


@register("HardSwish")
class HardSwish(Gate):
    """x times HardSigmoid of x (Howard et al. 2019)."""

    replayable = True
    of_caffe = False
    activation = Activation("hard_swish")

    def _forward(self, x: Array, out: Array) -> Array:
        return self.ops.hard_swish_forward(x, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return self.ops.hard_swish_backward(dy, x, out=out)
