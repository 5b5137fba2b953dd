"""Softmax along any axis, and over axis 1 its cross-entropy loss and accuracy (Caffe's Softmax,
SoftmaxWithLoss, Accuracy). The caller moves classes on another axis to axis 1, as a view.

Labels have the scores' shape without axis 1 (or with 1 there) and hold whole numbers in any dtype.
Sums over examples are taken in float64. The caller applies loss weights, except the one factor that
scales a gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.errors import (
    Array,
    OpsError,
    Shape,
    check_alike,
    check_axis,
    check_choice,
    check_float,
    check_out,
)

NORMALIZATIONS = ("VALID", "FULL", "BATCH_SIZE", "NONE")
LEAST_PROBABILITY = 1.17549435e-38  # FLT_MIN, where Caffe cuts a probability before its logarithm
# numbers: the loss, a label that is not a class or NaN, the divisor of the summed losses
VERDICT = 3


def softmax_forward(xp: Any, scores: Array, axis: int, out: Array | None) -> Array:
    """Probabilities of the scores' shape that sum to one over `axis`. out may be scores."""
    op = "softmax_forward"
    check_alike(op, out, scores=scores)
    axis = check_axis(op, axis, scores.ndim)
    if scores.size == 0:
        raise OpsError(f"{op}: scores have shape {tuple(scores.shape)}, expected no empty axis")
    prob: Array = xp.subtract(scores, scores.max(axis=axis, keepdims=True), out=out)
    xp.exp(prob, out=prob)
    prob /= prob.sum(axis=axis, keepdims=True)
    return prob


def softmax_backward(xp: Any, dy: Array, prob: Array, axis: int, out: Array | None) -> Array:
    """dscores = prob * (dy - sum of dy * prob over `axis`). out may be dy or prob."""
    op = "softmax_backward"
    check_alike(op, out, dy=dy, prob=prob)
    axis = check_axis(op, axis, dy.ndim)
    along = xp.multiply(dy, prob)
    total = along.sum(axis=axis, keepdims=True)
    xp.subtract(dy, total, out=along)
    dx: Array = xp.multiply(along, prob, out=out)
    return dx


def loss_forward(
    xp: Any,
    scores: Array,
    labels: Array,
    ignore_label: int | None,
    normalization: str,
    out: Array | None,
    verdict: Array | None = None,
) -> tuple[float, Array]:
    """Return the labels' negative log-probability, averaged as `normalization` asks, and the
    probabilities."""
    check_scores("softmax_loss_forward", scores)
    index, valid = read_labels(xp, "softmax_loss_forward", scores, labels, ignore_label)
    share = divisor(valid, normalization)
    prob = softmax_forward(xp, scores, 1, out)
    own = prob[own_scores(xp, index)].astype(np.float64)
    losses = -xp.log(xp.maximum(own, LEAST_PROBABILITY))
    found = float(xp.sum(xp.where(valid, losses, 0.0))) / share
    check_out("softmax_loss_forward", "verdict", verdict, (VERDICT,), scores.dtype)
    if verdict is not None:
        for place, number in enumerate((found, math.nan, share)):
            verdict[place] = number
    return found, prob


def loss_backward(
    xp: Any, prob: Array, labels: Array, loss_weight: float, ignore_label: int | None,
    normalization: str, out: Array | None,
) -> Array:  # fmt: skip
    """The scores' gradient, (prob - onehot) * loss_weight / divisor; zero where the label is
    ignored."""
    op = "softmax_loss_backward"
    check_scores(op, prob)
    index, valid = read_labels(xp, op, prob, labels, ignore_label)
    check_out(op, "out", out, prob.shape, prob.dtype)
    scale = float(loss_weight) / divisor(valid, normalization)
    own = own_scores(xp, index)
    if out is not prob:
        out = xp.multiply(prob, 1.0, out=out)
    assert out is not None
    out[own] -= 1
    out *= scale
    if ignore_label is not None:
        xp.copyto(out, 0, where=~valid[:, None])
    return out


def accuracy(xp: Any, scores: Array, labels: Array, top_k: int, ignore_label: int | None) -> float:
    """The share of the labels that are among the `top_k` best scores; NaN if no label counts.

    As in Caffe's master branch, a class that ties with the label's own counts as better than it. So
    does NaN.
    """
    check_scores("accuracy", scores)
    if not 1 <= top_k <= scores.shape[1]:
        raise OpsError(
            f"accuracy: top_k is {top_k}, expected 1 to {scores.shape[1]}, the number of classes"
        )
    index, valid = read_labels(xp, "accuracy", scores, labels, ignore_label)
    own = scores[own_scores(xp, index)][:, None]
    not_worse = xp.sum(~(scores < own), axis=1)  # the label's own class is one of them
    counted = int(valid.sum())
    return int(((not_worse <= top_k) & valid).sum()) / counted if counted else float("nan")


def check_scores(op: str, scores: Array) -> None:
    """Check that scores are (N, C, ...) of a float dtype."""
    check_float(op, scores=scores)
    if scores.ndim < 2 or scores.size == 0:
        raise OpsError(
            f"{op}: scores have shape {tuple(scores.shape)}, expected (N, C, ...) "
            "with no empty axis"
        )


def read_labels(
    xp: Any, op: str, scores: Array, labels: Array, ignore_label: int | None
) -> tuple[Array, Array]:
    """Return class numbers as integers (0 where ignored) and the mask of the labels that count,
    shape (N, ...)."""
    labels = xp.asarray(labels)
    shape = check_labels(op, scores, labels)
    labels = labels.reshape(shape)
    valid = xp.ones(shape, bool) if ignore_label is None else labels != ignore_label
    wrong = valid & ~((labels >= 0) & (labels < scores.shape[1]) & (labels == xp.floor(labels)))
    if wrong.any():
        raise OpsError(f"{op}: {no_class(labels[wrong].reshape(-1)[0].item(), scores.shape[1])}")
    return xp.where(valid, labels, 0).astype(np.int64), valid


def check_labels(op: str, scores: Array, labels: Array) -> Shape:
    """Check that labels have the scores' shape without axis 1, or with 1 there; returns the shape
    without it."""
    shape = (scores.shape[0], *scores.shape[2:])
    if tuple(labels.shape) not in (shape, (shape[0], 1, *shape[1:])):
        raise OpsError(f"{op}: labels have shape {tuple(labels.shape)}, expected {shape}")
    return shape


def no_class(label: float, classes: int) -> str:
    """The text of an error about a label that is not a class."""
    return f"a label is {label}, expected a whole number from 0 to {classes - 1}"


def fixed_divisor(rows: int, labels: int, ignore_label: int | None, normalization: str) -> float:
    """The divisor of a summed loss if it does not depend on the labels, else 0."""
    if normalization == "VALID":
        return float(max(1, labels)) if ignore_label is None else 0.0
    return float({"FULL": labels, "BATCH_SIZE": rows, "NONE": 1}[normalization])


def own_scores(xp: Any, index: Array) -> tuple[Array, ...]:
    """The index of each label's own score in (N, C, ...), whatever the strides."""
    grid = [
        xp.arange(size).reshape((-1,) + (1,) * (index.ndim - 1 - a))
        for a, size in enumerate(index.shape)
    ]
    return (grid[0], index, *grid[1:])


def divisor(valid: Array, normalization: str) -> float:
    """The divisor of a summed loss, from the mask (N, ...) of the examples that count."""
    check_choice("loss: normalization", normalization, NORMALIZATIONS)
    if normalization == "VALID":
        # at least 1, so that a batch of ignored labels costs nothing
        return max(1.0, float(valid.sum()))
    return float({"FULL": valid.size, "BATCH_SIZE": valid.shape[0], "NONE": 1}[normalization])
