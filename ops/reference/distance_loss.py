"""Losses that compare arrays element by element: sigmoid cross-entropy, Euclidean, hinge,
contrastive (Caffe).

A forward function returns the loss as a float, summed in float64, and the array that its backward
function needs. A backward function returns loss_weight times the gradient. The second of two
compared arrays has the negated gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.errors import Array, OpsError, check_alike, check_choice, check_ndim, check_shape
from ops.reference.loss import divisor, read_labels
from ops.reference.pointwise import sigmoid_forward

NORMS = ("L1", "L2")
DISTANCE_FLOOR = 1e-4  # Caffe adds it to a distance before dividing by it


def _total(xp: Any, values: Array) -> float:
    return float(xp.sum(values, dtype=np.float64))


def _valid(xp: Any, op: str, targets: Array, ignore_label: int | None) -> Array:
    if targets.ndim < 1:
        raise OpsError(f"{op}: targets have no axes, expected (N, ...)")
    valid: Array = xp.ones(targets.shape, bool) if ignore_label is None else targets != ignore_label
    return valid


def sigmoid_cross_entropy_forward(
    xp: Any,
    scores: Array,
    targets: Array,
    ignore_label: int | None,
    normalization: str,
    out: Array | None,
) -> tuple[float, Array]:
    """-(t log p + (1 - t) log(1 - p)) of p = sigmoid(scores), targets t in [0, 1] of one shape ->
    (loss, p).

    Written as max(s, 0) - s t + log(1 + exp(-|s|)), which no score overflows.
    """
    op = "sigmoid_cross_entropy_forward"
    check_alike(op, out, scores=scores, targets=targets)
    valid = _valid(xp, op, targets, ignore_label)
    share = divisor(valid, normalization)
    losses = xp.maximum(scores, 0) - scores * targets + xp.log1p(xp.exp(-xp.abs(scores)))
    total = _total(xp, xp.where(valid, losses, scores.dtype.type(0)))
    return total / share, sigmoid_forward(xp, scores, out)


def sigmoid_cross_entropy_backward(
    xp: Any, prob: Array, targets: Array, loss_weight: float, ignore_label: int | None,
    normalization: str, out: Array | None,
) -> Array:  # fmt: skip
    """dscores = (prob - targets) * loss_weight / divisor, zero where the target is ignored. out may
    be prob."""
    op = "sigmoid_cross_entropy_backward"
    check_alike(op, out, prob=prob, targets=targets)
    valid = _valid(xp, op, targets, ignore_label)
    dx: Array = xp.subtract(prob, targets, out=out)
    dx *= float(loss_weight) / divisor(valid, normalization)
    if ignore_label is not None:
        xp.copyto(dx, 0, where=~valid)
    return dx


def euclidean_forward(xp: Any, a: Array, b: Array, out: Array | None) -> tuple[float, Array]:
    """Sum of (a - b)^2 / 2N over arrays (N, ...) -> (loss, a - b)."""
    check_alike("euclidean_forward", out, a=a, b=b)
    diff: Array = xp.subtract(a, b, out=out)
    return _total(xp, xp.square(diff)) / (2 * _images("euclidean_forward", a)), diff


def euclidean_backward(xp: Any, diff: Array, loss_weight: float, out: Array | None) -> Array:
    """da = diff * loss_weight / N; db is its negative (give -loss_weight). out may be diff."""
    check_alike("euclidean_backward", out, diff=diff)
    da: Array = xp.multiply(diff, float(loss_weight) / _images("euclidean_backward", diff), out=out)
    return da


def _images(op: str, x: Array) -> int:
    if x.ndim < 1 or x.shape[0] == 0:
        raise OpsError(
            f"{op}: input has shape {tuple(x.shape)}, expected (N, ...) with N at least 1"
        )
    return int(x.shape[0])


def hinge_forward(
    xp: Any, scores: Array, labels: Array, norm: str, out: Array | None
) -> tuple[float, Array]:
    """max(0, 1 - s) for the label's own score, max(0, 1 + s) for the others -> (loss, these
    margins).

    scores (N, C, ...); the loss is the sum of the margins (L1) or of their squares (L2) over N.
    """
    op = "hinge_forward"
    check_choice(f"{op}: norm", norm, NORMS)
    check_alike(op, out, scores=scores)
    own = _own_mask(xp, op, scores, labels)
    margins: Array = xp.add(xp.where(own, -scores, scores), 1.0, out=out)
    xp.maximum(margins, 0, out=margins)
    values = margins if norm == "L1" else xp.square(margins)
    return _total(xp, values) / len(scores), margins


def hinge_backward(
    xp: Any, margins: Array, labels: Array, norm: str, loss_weight: float, out: Array | None
) -> Array:
    """dscores from forward's margins. out may be margins."""
    op = "hinge_backward"
    check_choice(f"{op}: norm", norm, NORMS)
    check_alike(op, out, margins=margins)
    own = _own_mask(xp, op, margins, labels)
    slope = xp.sign(margins) if norm == "L1" else margins * 2.0
    dx: Array = xp.multiply(slope, float(loss_weight) / len(margins), out=out)
    xp.copyto(dx, -dx, where=own)
    return dx


def _own_mask(xp: Any, op: str, scores: Array, labels: Array) -> Array:
    """True at each label's own class."""
    if scores.ndim < 2 or scores.size == 0:
        raise OpsError(
            f"{op}: scores have shape {tuple(scores.shape)}, expected (N, C, ...) "
            "with no empty axis"
        )
    index, _ = read_labels(xp, op, scores, labels, None)
    classes = xp.arange(scores.shape[1]).reshape((-1,) + (1,) * (scores.ndim - 2))
    mask: Array = index[:, None] == classes
    return mask


def contrastive_forward(
    xp: Any, a: Array, b: Array, similar: Array, margin: float, legacy: bool, out: Array | None
) -> tuple[float, Array]:
    """Pairs (N, C), similar (N,) 0 or not 0 -> (loss, a - b).

    A similar pair costs d^2, another max(margin - d, 0)^2, with `legacy` max(margin - d^2, 0);
    summed, over 2N (Hadsell et al. 2006).
    """
    op = "contrastive_forward"
    check_alike(op, out, a=a, b=b)
    check_ndim(op, "a", a, "NC")
    alike = _alike(xp, op, similar, a)
    diff: Array = xp.subtract(a, b, out=out)
    squares = xp.sum(xp.square(diff), axis=1, dtype=np.float64)
    gap = xp.maximum(float(margin) - (squares if legacy else xp.sqrt(squares)), 0.0)
    losses = xp.where(alike, squares, gap if legacy else xp.square(gap))
    return _total(xp, losses) / (2 * _images(op, a)), diff


def contrastive_backward(
    xp: Any,
    diff: Array,
    similar: Array,
    margin: float,
    legacy: bool,
    loss_weight: float,
    out: Array | None,
) -> Array:
    """da; db is its negative (give -loss_weight). Caffe divides by d + 1e-4, so that d = 0 is
    harmless."""
    op = "contrastive_backward"
    check_alike(op, out, diff=diff)
    check_ndim(op, "diff", diff, "NC")
    alike = _alike(xp, op, similar, diff)
    squares = xp.sum(xp.square(diff), axis=1)
    distance = xp.sqrt(squares)
    gap = float(margin) - (squares if legacy else distance)
    push = (gap > 0) * 1.0 if legacy else xp.maximum(gap, 0) / (distance + DISTANCE_FLOOR)
    factor = xp.where(alike, 1.0, -push) * (float(loss_weight) / _images(op, diff))
    da: Array = xp.multiply(diff, factor.astype(diff.dtype)[:, None], out=out)
    return da


def _alike(xp: Any, op: str, similar: Array, x: Array) -> Array:
    alike: Array = xp.asarray(similar) != 0
    check_shape(op, "similar", alike.reshape(-1), x.shape[:1])
    return alike.reshape(-1)
