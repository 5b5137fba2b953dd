"""The interface of a device's convolution algorithms: each is made once for a shape and run many
times. `choose` picks one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from ops.errors import BFLOAT16, Array, Shape
from ops.geometry import ConvGeometry


class Direction(StrEnum):
    """The three passes of a convolution."""

    FORWARD = "forward"
    DATA = "backward-data"
    WEIGHTS = "backward-weights"


class Epilogue(NamedTuple):
    """What a forward pass does behind its sums: it adds a bias, and takes the maximum with 0."""

    bias: bool = False
    rectify: bool = False

    def __str__(self) -> str:
        return " and ".join(["bias"] * self.bias + ["ReLU"] * self.rectify)


PLAIN = Epilogue()


@dataclass(frozen=True)
class ConvShape:
    """A convolution: x (N, C, H, W), w (K, C/groups, kh, kw) -> y (N, K, OH, OW), computed in this
    dtype. `narrow`: whether x and its gradient, and y and its gradient, are stored in bfloat16."""

    in_shape: Shape
    outputs: int
    geometry: ConvGeometry
    dtype: Any
    narrow: tuple[bool, bool] = (False, False)

    @property
    def factors(self) -> Any:
        """The dtype of the factors of products. Factors of another dtype are converted first."""
        return BFLOAT16 if any(self.narrow) else self.dtype

    @property
    def stored(self) -> tuple[Any, Any]:
        """The dtypes of x and of y."""
        first, second = (BFLOAT16 if narrow else self.dtype for narrow in self.narrow)
        return first, second

    @property
    def out_shape(self) -> Shape:
        """(N, K, OH, OW)."""
        return self.geometry.output_shape(self.in_shape, self.outputs)

    def __str__(self) -> str:
        (n, c, h, w), g = self.in_shape, self.geometry
        kernel, stride = ("x".join(map(str, pair)) for pair in (g.kernel, g.stride))
        more = [f", stride {stride}"] * (g.stride != (1, 1)) + [f", {g.groups} groups"] * (
            g.groups > 1
        )
        more += [", bfloat16"] * any(self.narrow)
        return f"{n}x{c}x{h}x{w} -> {self.outputs} by {kernel}{''.join(more)}"

    @property
    def weight_shape(self) -> Shape:
        """(K, C/groups, kh, kw)."""
        return (self.outputs, self.in_shape[1] // self.geometry.groups, *self.geometry.kernel)


class Convolution(Protocol):
    """One algorithm for one `ConvShape`.

    x, y, dx and dy are pixels with a `step_of` (`images`), in the shape's `stored` dtypes; w, dw
    (K, C/groups, kh, kw) and b (K,) are C-contiguous. Destinations are overwritten, whatever they
    held.
    """

    scratch_bytes: int

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, rectify: bool) -> None:
        """y = x * w + b, or the maximum of that and 0."""

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """dx, the gradient by x."""

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """dw, summed over the batch."""
