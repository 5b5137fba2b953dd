"""The activations that batch norm computes in its own passes, as formulas over vectors.

Forward takes the normalised, scaled x. Backward takes dy and that same number, which is computed
again from x.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ops.activation import Activation
from ops.cpu.codegen.values import Vec
from ops.cpu.elementwise.activation import clipped, clipped_back, rectified, rectified_back
from ops.cpu.elementwise.gates import (
    gated,
    gated_back,
    gelu,
    gelu_back,
    hard_gate,
    swish_gate,
)


class Joined(NamedTuple):
    """forward(code, z, *numbers) -> y; backward(code, dy, z, *numbers) -> dz. `numbers`: names of
    the activation's numbers in a block of arguments, separated by spaces."""

    forward: Callable[..., Vec]
    backward: Callable[..., Vec]
    numbers: str = ""


JOINED: dict[str | None, Joined] = {
    None: Joined(lambda c, z: z, lambda c, dy, z: dy),
    "relu": Joined(rectified, rectified_back),
    "clip": Joined(clipped, clipped_back, "least most"),
    "swish": Joined(partial(gated, swish_gate), partial(gated_back, swish_gate), "steepness"),
    "gelu": Joined(gelu, gelu_back),
    "hard_swish": Joined(partial(gated, hard_gate), partial(gated_back, hard_gate)),
}


def kind_and_numbers(activation: Activation | None) -> tuple[str | None, tuple[float, ...]]:
    """The key of the activation in tables of kernels, and its numbers."""
    return (None, ()) if activation is None else (activation.kind, activation.numbers)
