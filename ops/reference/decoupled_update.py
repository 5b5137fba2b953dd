"""Parameter updates with decoupled weight decay, as in PyTorch: rate * decay * w is taken from w,
not added to the gradient. The moving average of parameters.

Histories hold gradients, not steps: the rate is multiplied at the end. Arguments and results are
those of `update`.
"""

from __future__ import annotations

import math
from typing import Any

from ops.errors import Array, OpsError, check_alike, check_choice
from ops.reference.update import mean_square, start


def sgd(
    xp: Any,
    w: Array,
    g: Array,
    history: Array,
    rate: float,
    momentum: float,
    decay: float,
    nesterov: bool,
    regularization: str,
    out_w: Array | None,
    out_h: Array | None,
) -> tuple[Array, Array]:
    """h' = momentum * h + g, d = h' or, with `nesterov`, g + momentum * h', w' = w - (rate * d +
    rate * decay * w); returns (w', h')."""
    start("sgdw_update", w, g, out_w, {"history": (history, out_h)})
    only_l2("sgdw_update", regularization)
    step = xp.multiply(g, 1.0)  # a copy: out_h may be g's place
    new_h: Array = xp.multiply(history, float(momentum), out=out_h)
    new_h += step
    if nesterov:
        step += new_h * float(momentum)
    else:
        step[...] = new_h
    step *= float(rate)
    return _less(xp, w, step, rate * decay, out_w), new_h


def adam(
    xp: Any,
    w: Array,
    g: Array,
    mean: Array,
    square: Array,
    rate: float,
    momentum: float,
    momentum2: float,
    delta: float,
    step_number: int,
    decay: float,
    regularization: str,
    out_w: Array | None,
    out_m: Array | None,
    out_s: Array | None,
) -> tuple[Array, Array, Array]:
    """m' = b1 m + (1 - b1) g, s' = b2 s + (1 - b2) g^2, w' = w - (rate / (1 - b1^t) * m' / (sqrt(s'
    / (1 - b2^t)) + delta) + rate * decay * w); returns (w', m', s'). t counts from 1."""
    op = "adamw_update"
    start(op, w, g, out_w, {"mean": (mean, out_m), "square": (square, out_s)})
    only_l2(op, regularization)
    factor, small = corrections(op, rate, momentum, momentum2, delta, step_number)
    step = xp.multiply(g, 1 - float(momentum))
    new_s = mean_square(xp, square, g, momentum2, 1 - momentum2, out_s)
    new_m: Array = xp.multiply(mean, float(momentum), out=out_m)
    new_m += step
    root = xp.sqrt(new_s)
    root += float(small)
    xp.divide(new_m, root, out=step)
    step *= float(factor)
    return _less(xp, w, step, rate * decay, out_w), new_m, new_s


def moving_average(xp: Any, average: Array, w: Array, keep: float, out: Array | None) -> Array:
    """average + (1 - keep) * (w - average), as PyTorch's lerp; out may be average."""
    check_alike("moving_average", out, average=average, w=w)
    change = xp.subtract(w, average)
    change *= 1 - float(keep)
    new: Array = xp.add(average, change, out=out)
    return new


def corrections(
    op: str, rate: float, momentum: float, momentum2: float, delta: float, step_number: int
) -> tuple[float, float]:
    """The factor of m / (sqrt(s) + small), and `small`, after the corrections of both means for
    their first zeros."""
    if step_number < 1:
        raise OpsError(
            f"{op}: step_number is {step_number}, expected at least 1: the first update is number 1"
        )
    root = math.sqrt(1 - float(momentum2) ** step_number)
    return rate * root / (1 - float(momentum) ** step_number), delta * root


def only_l2(op: str, regularization: str) -> None:
    """Raise OpsError for another regularization than L2."""
    check_choice(f"{op}: regularization", regularization, ("L2",))


def _less(xp: Any, w: Array, step: Array, shrink: float, out_w: Array | None) -> Array:
    """w - (step + shrink * w); `step` is used up."""
    if shrink:
        step += w * float(shrink)
    new_w: Array = xp.subtract(w, step, out=out_w)
    return new_w
