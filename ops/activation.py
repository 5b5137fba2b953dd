"""The activation that an operation computes on its result before it writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ops.errors import Array


@dataclass(frozen=True)
class Activation:
    """A function of single elements, by the name of its operations: `kind` "swish" with the numbers
    (beta,) stands for swish_forward(x, beta) and swish_backward(dy, x, beta)."""

    kind: str
    numbers: tuple[float, ...] = ()

    def forward(self, ops: Any, x: Array, out: Array | None = None) -> Array:
        """Compute the function of x with the backend `ops`; out may be x."""
        y: Array = getattr(ops, f"{self.kind}_forward")(x, *self.numbers, out=out)
        return y

    def backward(self, ops: Any, dy: Array, x: Array, out: Array | None = None) -> Array:
        """Compute the gradient of x, the function's argument; out may be dy."""
        dx: Array = getattr(ops, f"{self.kind}_backward")(dy, x, *self.numbers, out=out)
        return dx


RELU = Activation("relu")
