"""The generic directional gradient check: one line proves a layer's backward pass.

For a random direction v and a random weighting u of the outputs, the check takes the derivative of
sum(u * f(x)) along v by central differences in float64. It compares that number with the one that
follows from the backward pass. It works on any function of arrays and knows nothing of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ops.errors import Array, OpsError

Forward = Callable[..., Array]
Backward = Callable[..., Sequence[Array]]


def check_gradient(
    forward: Forward, backward: Backward, *inputs: Array,
    tolerance: float = 1e-6, step: float = 1e-6, directions: int = 3, seed: int = 0,
) -> float:  # fmt: skip
    """Return the largest relative error of `backward` over all inputs and directions. Raises
    OpsError if it exceeds `tolerance`.

    forward(*inputs) -> y; backward(dy, *inputs) -> one gradient per input, in order. Inputs are
    float64 and are not changed. Keep them away from kinks (ties of a maximum, zeros of a ReLU) by
    more than `step`.
    """
    _check_inputs(inputs)
    random = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(directions):
        weights = random.standard_normal(forward(*inputs).shape)
        gradients = backward(weights, *inputs)
        if len(gradients) != len(inputs):
            raise OpsError(
                f"check_gradient: backward gave {len(gradients)} gradients, expected {len(inputs)}"
            )
        for which, (x, gradient) in enumerate(zip(inputs, gradients, strict=True)):
            if gradient.shape != x.shape:
                raise OpsError(
                    f"check_gradient: gradient {which} has shape "
                    f"{gradient.shape}, expected {x.shape}"
                )
            direction = random.standard_normal(x.shape)
            measured = _slope(forward, inputs, which, direction, weights, step)
            error = _relative(measured, float(np.sum(gradient * direction)))
            if not error <= tolerance:
                raise OpsError(
                    f"check_gradient: input {which}: relative error {error:.2e} "
                    f"exceeds {tolerance:.0e}"
                )
            worst = max(worst, error)
    return worst


def _check_inputs(inputs: Sequence[Array]) -> None:
    for which, x in enumerate(inputs):
        if x.dtype != np.float64:
            raise OpsError(f"check_gradient: input {which} is {x.dtype}, expected float64")


def _slope(
    forward: Forward,
    inputs: Sequence[Array],
    which: int,
    direction: Array,
    weights: Array,
    step: float,
) -> float:
    ends = []
    for sign in (1, -1):
        moved = [x + sign * step * direction if k == which else x for k, x in enumerate(inputs)]
        ends.append(float(np.sum(weights * forward(*moved))))
    return (ends[0] - ends[1]) / (2 * step)


def _relative(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b), 1e-8)
