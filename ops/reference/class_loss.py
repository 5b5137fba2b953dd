"""Losses of class probabilities other than the softmax loss: multinomial logistic and infogain
(Caffe).

Labels are read as the softmax loss reads them. Probabilities are cut at 1e-20 before their
logarithm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.errors import Array, check_alike, check_float, check_shape
from ops.reference.loss import check_scores, divisor, own_scores, read_labels, softmax_forward

LEAST_PROBABILITY = 1e-20  # Caffe's kLOG_THRESHOLD


def multinomial_logistic_forward(xp: Any, prob: Array, labels: Array) -> float:
    """-log of each label's probability, prob (N, C, ...), summed and divided by N."""
    op = "multinomial_logistic_forward"
    check_scores(op, prob)
    index, _ = read_labels(xp, op, prob, labels, None)
    own = prob[own_scores(xp, index)].astype(np.float64)
    return -float(xp.sum(xp.log(xp.maximum(own, LEAST_PROBABILITY)))) / len(prob)


def multinomial_logistic_backward(
    xp: Any, prob: Array, labels: Array, loss_weight: float, out: Array | None
) -> Array:
    """dprob = -loss_weight / (N prob) at the labels, zero elsewhere."""
    op = "multinomial_logistic_backward"
    check_scores(op, prob)
    check_alike(op, out, prob=prob)
    index, _ = read_labels(xp, op, prob, labels, None)
    at = own_scores(xp, index)
    own = -float(loss_weight) / len(prob) / xp.maximum(prob[at], LEAST_PROBABILITY)
    dprob: Array = xp.empty_like(prob) if out is None else out
    dprob[...] = 0
    dprob[at] = own
    return dprob


def infogain_forward(
    xp: Any,
    scores: Array,
    labels: Array,
    matrix: Array,
    ignore_label: int | None,
    normalization: str,
    out: Array | None,
) -> tuple[float, Array]:
    """-sum over classes of matrix[label, class] * log softmax(scores) -> (loss, probabilities).

    scores (N, C, ...), matrix (C, C). The identity gives the softmax loss.
    """
    op = "infogain_forward"
    weights, valid = _rows(xp, op, scores, labels, matrix, ignore_label)
    share = divisor(valid, normalization)
    prob = softmax_forward(xp, scores, 1, out)
    gains = xp.log(xp.maximum(prob, LEAST_PROBABILITY))
    gains *= weights
    losses = xp.where(valid, xp.sum(gains, axis=1, dtype=np.float64), 0.0)
    return -float(xp.sum(losses)) / share, prob


def infogain_backward(
    xp: Any,
    prob: Array,
    labels: Array,
    matrix: Array,
    loss_weight: float,
    ignore_label: int | None,
    normalization: str,
    out: Array | None,
) -> Array:
    """dscores = (prob * (sum of the label's matrix row) - that row) * loss_weight / divisor. out
    may be prob."""
    op = "infogain_backward"
    check_alike(op, out, prob=prob)
    weights, valid = _rows(xp, op, prob, labels, matrix, ignore_label)
    dx: Array = xp.multiply(prob, weights.sum(axis=1, keepdims=True), out=out)
    dx -= weights
    dx *= float(loss_weight) / divisor(valid, normalization)
    if ignore_label is not None:
        xp.copyto(dx, 0, where=~valid[:, None])
    return dx


def _rows(
    xp: Any, op: str, scores: Array, labels: Array, matrix: Array, ignore_label: int | None
) -> tuple[Array, Array]:
    """Return each label's row of the matrix, lined up with the scores (N, C, ...), and the mask of
    the labels that count."""
    check_scores(op, scores)
    check_float(op, scores=scores, matrix=matrix)
    check_shape(op, "matrix", matrix, (scores.shape[1], scores.shape[1]))
    index, valid = read_labels(xp, op, scores, labels, ignore_label)
    return xp.moveaxis(matrix[index], -1, 1), valid
