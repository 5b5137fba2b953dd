"""Parameter updates in which every number depends on the whole parameter: LARS and Muon. Arguments
and results are those of `update`.

Histories hold gradients, not steps: the rate is multiplied at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ops.errors import Array
from ops.reference.decoupled_update import only_l2
from ops.reference.reduction import l2_norm_squared
from ops.reference.update import start

# the quintic iteration of Jordan et al. 2024, which brings singular values near 1 in five steps
A, B, C = 3.4445, -4.7750, 2.0315
STEPS = 5
SMALLEST = 1e-7  # a norm below which a matrix counts as zero
RMS = 0.2  # of AdamW's steps, so that one rate fits both (Liu et al. 2025)


def lars(
    xp: Any,
    w: Array,
    g: Array,
    history: Array,
    rate: float,
    momentum: float,
    trust: float,
    delta: float,
    decay: float,
    regularization: str,
    out_w: Array | None,
    out_h: Array | None,
) -> tuple[Array, Array]:
    """h' = momentum * h + local * (g + decay * w), w' = w - rate * h'; returns (w', h')."""
    start("lars_update", w, g, out_w, {"history": (history, out_h)})
    only_l2("lars_update", regularization)
    step = xp.multiply(w, float(decay))
    step += g
    if w.ndim > 1:
        step *= _local_rate(xp, w, g, trust, delta, decay)
    new_h: Array = xp.multiply(history, float(momentum), out=out_h)
    new_h += step
    xp.multiply(new_h, float(rate), out=step)
    new_w: Array = xp.subtract(w, step, out=out_w)
    return new_w, new_h


def _local_rate(xp: Any, w: Array, g: Array, trust: float, delta: float, decay: float) -> float:
    """The factor of a layer's rate. 1 if the parameter or its gradient is zero."""
    size = math.sqrt(l2_norm_squared(xp, w))
    slope = math.sqrt(l2_norm_squared(xp, g))
    return trust * size / (slope + decay * size + delta) if size and slope else 1.0


def muon(
    xp: Any,
    arrays: Sequence[tuple[Array, Array, Array]],
    rates: Sequence[float],
    decays: Sequence[float],
    momentum: float,
    regularization: str,
    outs: Sequence[tuple[Array | None, Array | None]],
) -> list[tuple[Array, Array]]:
    """h' = momentum * h + (1 - momentum) * g, d = g + momentum * (h' - g), w' = w - rate * (0.2 *
    sqrt(largest side) * orthogonal(d) + decay * w); returns (w', h') of each of the parameters
    (w, g, history), which have one shape."""
    only_l2("muon_update", regularization)
    histories = []
    directions = []
    for (w, g, history), (out_w, out_h) in zip(arrays, outs, strict=True):
        start("muon_update", w, g, out_w, {"history": (history, out_h)})
        change = xp.subtract(g, history)
        change *= 1 - float(momentum)
        new_h: Array = xp.add(history, change, out=out_h)
        xp.subtract(new_h, g, out=change)
        change *= float(momentum)
        change += g
        histories.append(new_h)
        directions.append(change.reshape(len(w), -1))
    steps = orthogonal(xp, xp.stack(directions))
    scale = RMS * math.sqrt(max(steps.shape[1:]))
    found = []
    for at, ((w, _, _), (out_w, _)) in enumerate(zip(arrays, outs, strict=True)):
        step = steps[at].reshape(w.shape)
        step = step * float(rates[at] * scale)
        if decays[at]:
            step += w * float(rates[at] * decays[at])
        found.append((xp.subtract(w, step, out=out_w), histories[at]))
    return found


def orthogonal(xp: Any, x: Array) -> Array:
    """The nearest matrices with orthogonal rows or columns, roughly: each of the stacked matrices
    gets singular values near 1, by Newton-Schulz iterations."""
    wide = x.shape[1] <= x.shape[2]
    x = x if wide else xp.swapaxes(x, 1, 2)
    norm = xp.sqrt(xp.sum(xp.square(x), axis=(1, 2), keepdims=True))
    x = x / xp.maximum(norm, xp.asarray(SMALLEST, dtype=x.dtype))
    for _ in range(STEPS):
        gram = xp.matmul(x, xp.swapaxes(x, 1, 2))
        x = A * x + xp.matmul(B * gram + C * xp.matmul(gram, gram), x)
    return x if wide else xp.swapaxes(x, 1, 2)
