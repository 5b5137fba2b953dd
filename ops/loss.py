"""Softmax, its cross-entropy loss, and accuracy, over axis 1 (Caffe's Softmax, SoftmaxWithLoss, Accuracy).

Labels have the scores' shape without axis 1 (or with 1 there) and hold whole numbers in any dtype. Sums over
examples are taken in float64. Loss weights are the caller's, but for the one factor that scales a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.errors import Array, OpsError, check_choice, check_float, check_out

NORMALIZATIONS = ("VALID", "FULL", "BATCH_SIZE", "NONE")
LEAST_PROBABILITY = 1.17549435e-38  # FLT_MIN, where Caffe cuts a probability before its logarithm


def softmax_forward(xp: Any, scores: Array, out: Array | None) -> Array:
    """scores (N, C, ...) -> probabilities of the same shape that sum to one over axis 1."""
    _check_scores("softmax_forward", scores)
    check_out("softmax_forward", "out", out, scores.shape, scores.dtype)
    prob: Array = xp.subtract(scores, scores.max(axis=1, keepdims=True), out=out)
    xp.exp(prob, out=prob)
    prob /= prob.sum(axis=1, keepdims=True)
    return prob


def loss_forward(
    xp: Any, scores: Array, labels: Array, ignore_label: int | None, normalization: str, out: Array | None
) -> tuple[float, Array]:
    """The labels' negative log-probability, averaged as `normalization` says, and the probabilities."""
    _check_scores("softmax_loss_forward", scores)
    index, valid = _labels(xp, "softmax_loss_forward", scores, labels, ignore_label)
    divisor = _divisor(valid, normalization)
    prob = softmax_forward(xp, scores, out)
    own = prob[_own(xp, index)].astype(np.float64)
    losses = -xp.log(xp.maximum(own, LEAST_PROBABILITY))
    return float(xp.sum(xp.where(valid, losses, 0.0))) / divisor, prob


def loss_backward(
    xp: Any, prob: Array, labels: Array, loss_weight: float, ignore_label: int | None,
    normalization: str, out: Array | None,
) -> Array:  # fmt: skip
    """The scores' gradient, (prob - onehot) * loss_weight / divisor; zero where the label is ignored."""
    op = "softmax_loss_backward"
    _check_scores(op, prob)
    index, valid = _labels(xp, op, prob, labels, ignore_label)
    check_out(op, "out", out, prob.shape, prob.dtype)
    scale = float(loss_weight) / _divisor(valid, normalization)
    own = _own(xp, index)
    if out is not prob:
        out = xp.multiply(prob, 1.0, out=out)
    assert out is not None
    out[own] -= 1
    out *= scale
    if ignore_label is not None:
        xp.copyto(out, 0, where=~valid[:, None])
    return out


def accuracy(xp: Any, scores: Array, labels: Array, top_k: int, ignore_label: int | None) -> float:
    """Share of the labels that are among the `top_k` best scores; nan where no label counts.

    As in Caffe's master branch, a class that ties with the label's own counts as better than it, as does NaN.
    """
    _check_scores("accuracy", scores)
    if not 1 <= top_k <= scores.shape[1]:
        raise OpsError(f"accuracy: top_k is {top_k}, expected 1 to {scores.shape[1]}, the number of classes")
    index, valid = _labels(xp, "accuracy", scores, labels, ignore_label)
    own = scores[_own(xp, index)][:, None]
    not_worse = xp.sum(~(scores < own), axis=1)  # the label's own class is one of them
    counted = int(valid.sum())
    return int(((not_worse <= top_k) & valid).sum()) / counted if counted else float("nan")


def _check_scores(op: str, scores: Array) -> None:
    check_float(op, scores=scores)
    if scores.ndim < 2 or scores.size == 0:
        raise OpsError(f"{op}: scores have shape {tuple(scores.shape)}, expected (N, C, ...) with no empty axis")


def _labels(xp: Any, op: str, scores: Array, labels: Array, ignore_label: int | None) -> tuple[Array, Array]:
    """Class numbers as integers (0 where ignored) and the mask of those that count, shape (N, ...)."""
    labels, shape = xp.asarray(labels), (scores.shape[0], *scores.shape[2:])
    if tuple(labels.shape) not in (shape, (shape[0], 1, *shape[1:])):
        raise OpsError(f"{op}: labels have shape {tuple(labels.shape)}, expected {shape}")
    labels = labels.reshape(shape)
    valid = xp.ones(shape, bool) if ignore_label is None else labels != ignore_label
    wrong = valid & ~((labels >= 0) & (labels < scores.shape[1]) & (labels == xp.floor(labels)))
    if wrong.any():
        found = labels[wrong].reshape(-1)[0].item()
        raise OpsError(f"{op}: a label is {found}, expected a whole number from 0 to {scores.shape[1] - 1}")
    return xp.where(valid, labels, 0).astype(np.int64), valid


def _own(xp: Any, index: Array) -> tuple[Array, ...]:
    """The index of each label's own score in (N, C, ...), whatever the strides."""
    grid = xp.indices(index.shape, sparse=True)
    return (grid[0], index, *grid[1:])


def _divisor(valid: Array, normalization: str) -> float:
    check_choice("softmax loss: normalization", normalization, NORMALIZATIONS)
    if normalization == "VALID":
        return max(1.0, float(valid.sum()))  # at least 1, so that a batch of ignored labels costs nothing
    return float({"FULL": valid.size, "BATCH_SIZE": valid.shape[0], "NONE": 1}[normalization])
