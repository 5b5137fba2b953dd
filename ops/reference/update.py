"""Parameter updates (Caffe's solvers) and the addition of gradients. Inputs are written to only if
they are given as destinations.

`rate` and `decay` are final: the layer's lr_mult and decay_mult are already in them. The
regularised gradient is g + decay * w (L2) or g + decay * sign(w) (L1). Every update returns the new
w and its new histories; out_w may be w, the destination of a history may be that history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ops.errors import Array, OpsError, check_alike, check_choice, check_out

REGULARIZATIONS = ("L1", "L2")


def start(
    op: str,
    w: Array,
    g: Array,
    out_w: Array | None,
    histories: dict[str, tuple[Array, Array | None]],
) -> None:
    """Check the shapes and dtypes of an update's arrays and of their destinations."""
    check_alike(op, None, w=w, g=g, **{name: history for name, (history, _) in histories.items()})
    check_out(op, "out_w", out_w, w.shape, w.dtype)
    for name, (_, out) in histories.items():
        check_out(op, f"out of {name}", out, w.shape, w.dtype)


def _regularised(
    xp: Any, w: Array, g: Array, decay: float, regularization: str, into: Array
) -> Array:
    check_choice("update: regularization", regularization, REGULARIZATIONS)
    if not decay:
        xp.multiply(g, 1.0, out=into)
        return into
    xp.multiply(w if regularization == "L2" else xp.sign(w), float(decay), out=into)
    into += g
    return into


def sgd(
    xp: Any,
    w: Array,
    g: Array,
    history: Array,
    rate: float,
    momentum: float,
    decay: float,
    regularization: str,
    out_w: Array | None,
    out_h: Array | None,
) -> tuple[Array, Array]:
    """h' = momentum * h + rate * g, w' = w - h'; returns (w', h')."""
    start("sgd_update", w, g, out_w, {"history": (history, out_h)})
    new_w: Array = xp.empty_like(w) if out_w is None else out_w
    # the next version of w is free until the last line, so it holds the step and no temporary is
    # needed
    busy = any(xp.may_share_memory(new_w, a) for a in (w, g, history, out_h) if a is not None)
    step = _regularised(xp, w, g, decay, regularization, xp.empty_like(w) if busy else new_w)
    step *= float(rate)
    new_h: Array = xp.multiply(history, float(momentum), out=out_h)
    new_h += step
    xp.subtract(w, new_h, out=new_w)
    return new_w, new_h


def nesterov(
    xp: Any,
    w: Array,
    g: Array,
    history: Array,
    rate: float,
    momentum: float,
    decay: float,
    regularization: str,
    out_w: Array | None,
    out_h: Array | None,
) -> tuple[Array, Array]:
    """h' = momentum * h + rate * g, w' = w - ((1 + momentum) * h' - momentum * h); returns (w',
    h')."""
    start("nesterov_update", w, g, out_w, {"history": (history, out_h)})
    step = _regularised(xp, w, g, decay, regularization, xp.empty_like(w))
    step *= float(rate)
    kept = xp.multiply(history, float(momentum))
    new_h: Array = xp.add(kept, step, out=out_h)
    xp.multiply(new_h, 1 + float(momentum), out=step)
    step -= kept
    new_w: Array = xp.subtract(w, step, out=out_w)
    return new_w, new_h


def _by_root(
    xp: Any, w: Array, step: Array, squares: Array, factor: float, delta: float, out_w: Array | None
) -> Array:
    """w - factor * step / (sqrt(squares) + delta); `step` is used up."""
    root = xp.sqrt(squares)
    root += float(delta)
    step /= root
    step *= float(factor)
    new_w: Array = xp.subtract(w, step, out=out_w)
    return new_w


def mean_square(
    xp: Any, history: Array, g: Array, keep: float, gain: float, out: Array | None
) -> Array:
    """keep * history + gain * g^2."""
    square = xp.square(g)
    if gain != 1:
        square *= float(gain)
    mean: Array = xp.multiply(history, float(keep), out=out)
    mean += square
    return mean


def adagrad(
    xp: Any,
    w: Array,
    g: Array,
    history: Array,
    rate: float,
    delta: float,
    decay: float,
    regularization: str,
    out_w: Array | None,
    out_h: Array | None,
) -> tuple[Array, Array]:
    """h' = h + g^2, w' = w - rate * g / (sqrt(h') + delta); returns (w', h')."""
    start("adagrad_update", w, g, out_w, {"history": (history, out_h)})
    step = _regularised(xp, w, g, decay, regularization, xp.empty_like(w))
    new_h = mean_square(xp, history, step, 1.0, 1.0, out_h)
    return _by_root(xp, w, step, new_h, rate, delta, out_w), new_h


def rmsprop(
    xp: Any,
    w: Array,
    g: Array,
    history: Array,
    rate: float,
    rms_decay: float,
    delta: float,
    decay: float,
    regularization: str,
    out_w: Array | None,
    out_h: Array | None,
) -> tuple[Array, Array]:
    """h' = rms_decay * h + (1 - rms_decay) * g^2, w' = w - rate * g / (sqrt(h') + delta); returns
    (w', h')."""
    start("rmsprop_update", w, g, out_w, {"history": (history, out_h)})
    step = _regularised(xp, w, g, decay, regularization, xp.empty_like(w))
    new_h = mean_square(xp, history, step, rms_decay, 1 - rms_decay, out_h)
    return _by_root(xp, w, step, new_h, rate, delta, out_w), new_h


def adadelta(
    xp: Any,
    w: Array,
    g: Array,
    history: Array,
    updates: Array,
    rate: float,
    momentum: float,
    delta: float,
    decay: float,
    regularization: str,
    out_w: Array | None,
    out_h: Array | None,
    out_u: Array | None,
) -> tuple[Array, Array, Array]:
    """h' = m h + (1 - m) g^2, step = g sqrt((u + delta) / (h' + delta)), u' = m u + (1 - m) step^2,
    w' = w - rate * step; returns (w', h', u')."""
    start(
        "adadelta_update", w, g, out_w, {"history": (history, out_h), "updates": (updates, out_u)}
    )
    step = _regularised(xp, w, g, decay, regularization, xp.empty_like(w))
    new_h = mean_square(xp, history, step, momentum, 1 - momentum, out_h)
    ratio = xp.add(updates, float(delta))
    ratio /= new_h + float(delta)
    step *= xp.sqrt(ratio, out=ratio)
    new_u = mean_square(xp, updates, step, momentum, 1 - momentum, out_u)
    step *= float(rate)
    new_w: Array = xp.subtract(w, step, out=out_w)
    return new_w, new_h, new_u


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
    """m' = b1 m + (1 - b1) g, s' = b2 s + (1 - b2) g^2, w' = w - rate * sqrt(1 - b2^t) / (1 - b1^t)
    * m' / (sqrt(s') + delta); returns (w', m', s'). t counts from 1."""
    op = "adam_update"
    start(op, w, g, out_w, {"mean": (mean, out_m), "square": (square, out_s)})
    if step_number < 1:
        raise OpsError(
            f"{op}: step_number is {step_number}, expected at least 1: the first update is number 1"
        )
    step = _regularised(xp, w, g, decay, regularization, xp.empty_like(w))
    new_s = mean_square(xp, square, step, momentum2, 1 - momentum2, out_s)
    step *= 1 - float(momentum)
    new_m: Array = xp.multiply(mean, float(momentum), out=out_m)
    new_m += step
    step[...] = new_m
    corrected = (
        rate * math.sqrt(1 - float(momentum2) ** step_number) / (1 - float(momentum) ** step_number)
    )
    return _by_root(xp, w, step, new_s, corrected, delta, out_w), new_m, new_s


def add(xp: Any, a: Array, b: Array, out: Array | None) -> Array:
    """a + b, one shape and dtype; out may be a or b."""
    check_alike("add", out, a=a, b=b)
    total: Array = xp.add(a, b, out=out)
    return total


CHUNK = 1 << 15  # elements added up at a time, so that incomplete sums stay in the cache


def add_all(xp: Any, arrays: Sequence[Array], out: Array | None) -> Array:
    """The sum of at least two arrays of one shape and dtype. They are added in pairs, and the sums
    in pairs again. out must not be one of them."""
    if len(arrays) < 2:
        raise OpsError(f"add_all: found {len(arrays)} arrays, expected at least 2")
    check_alike("add_all", out, **{f"array {index}": array for index, array in enumerate(arrays)})
    if any(array is out for array in arrays):
        raise OpsError("add_all: out is one of the arrays, expected another")
    total: Array = xp.empty_like(arrays[0]) if out is None else out
    if total.ndim != 1:
        _in_pairs(xp, arrays, total)
        return total
    for low in range(0, len(total), CHUNK):
        part = slice(low, low + CHUNK)
        _in_pairs(xp, [array[part] for array in arrays], total[part])
    return total


def _in_pairs(xp: Any, arrays: Sequence[Array], out: Array) -> None:
    while len(arrays) > 2:
        sums = [xp.add(one, other) for one, other in zip(arrays[::2], arrays[1::2], strict=False)]
        arrays = [*sums, *arrays[2 * len(sums) :]]
    xp.add(arrays[0], arrays[1], out=out)
