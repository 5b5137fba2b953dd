"""The softmax loss against soft targets, over axis 1: label smoothing (Szegedy et al. 2015), and
labels that are probabilities, as mixup makes them (Zhang et al. 2017).

A target is t = (1 - smoothing) q + smoothing / C. q has the labels' probabilities if labels have
the scores' shape. Otherwise labels are classes, read as the softmax loss reads them, and q is 1 at
the class. The loss of a place is the sum over classes of t (log of the sum of exp - score): no
probability is cut.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.errors import Array, OpsError, check_choice, check_out
from ops.reference.loss import (
    NORMALIZATIONS,
    VERDICT,
    check_labels,
    check_scores,
    divisor,
    no_class,
    own_scores,
)

CLOSE = 1e-3  # how far the sum of probabilities may be from 1


def forward(
    xp: Any,
    scores: Array,
    labels: Array,
    smoothing: float,
    ignore_label: int | None,
    normalization: str,
    out: Array | None,
    verdict: Array | None,
) -> tuple[float, Array]:
    """Return the loss and the probabilities. With `verdict` the host does not wait: the loss is 0,
    and `verdict` gets the loss, what is wrong with a label (else NaN), and the divisor."""
    op = "soft_loss_forward"
    labels, valid = _read(xp, op, scores, labels, smoothing, ignore_label, normalization)
    check_out(op, "out", out, scores.shape, scores.dtype)
    check_out(op, "verdict", verdict, (VERDICT,), scores.dtype)
    wrong, told = _faults(xp, scores, labels, valid)
    if verdict is None and wrong.any():
        raise OpsError(f"{op}: {describe(told[wrong][0].item(), labels.ndim, scores)}")
    prob: Array = xp.subtract(scores, scores.max(axis=1, keepdims=True), out=out)
    cross, weight = _expected_score(xp, prob, labels, valid & ~wrong, smoothing)
    xp.exp(prob, out=prob)
    total = prob.sum(axis=1, keepdims=True)
    prob /= total
    losses = weight * xp.log(total[:, 0].astype(np.float64)) - cross
    summed = xp.sum(xp.where(valid, losses, 0.0))
    if verdict is None:
        return float(summed) / divisor(valid, normalization), prob
    share = _divisor(xp, valid, ignore_label, normalization)
    verdict[0] = summed / share
    verdict[1] = _one_of(xp, wrong, told)
    verdict[2] = share
    return 0.0, prob


def backward(
    xp: Any,
    prob: Array,
    labels: Array,
    smoothing: float,
    loss_weight: float,
    ignore_label: int | None,
    normalization: str,
    out: Array | None,
    verdict: Array | None,
) -> Array:
    """The scores' gradient, (prob * (the sum of t) - t) * loss_weight / divisor; zero where the
    label is ignored. out may be prob."""
    op = "soft_loss_backward"
    labels, valid = _read(xp, op, prob, labels, smoothing, ignore_label, normalization)
    check_out(op, "out", out, prob.shape, prob.dtype)
    classes = prob.shape[1]
    if labels.ndim == prob.ndim:
        target = labels * (1 - smoothing)
        target += smoothing / classes
        dx: Array = xp.multiply(prob, target.sum(axis=1, keepdims=True), out=out)
        dx -= target
    else:
        dx = xp.subtract(prob, smoothing / classes, out=out)
        dx[own_scores(xp, _index(xp, labels, valid, classes))] -= 1 - smoothing
    if verdict is None:
        dx *= float(loss_weight) / divisor(valid, normalization)
    else:
        dx *= float(loss_weight) / verdict[2]
    if ignore_label is not None:
        xp.copyto(dx, 0, where=~valid[:, None])
    return dx


def describe(told: float, axes: int, scores: Array) -> str:
    """The text of an error about a label. `axes`: the axes of the labels."""
    return no_distribution(told) if axes == scores.ndim else no_class(told, scores.shape[1])


def no_distribution(told: float) -> str:
    """The text of an error about labels that are not probabilities: `told` is a negative number, or
    a sum."""
    found = f"the number {told:g}" if told < 0 else f"the sum {told:g}"
    return (
        f"labels of the scores' shape are probabilities, found {found}, expected numbers of at "
        "least 0 whose sum over the classes is 1"
    )


def _read(
    xp: Any,
    op: str,
    scores: Array,
    labels: Array,
    smoothing: float,
    ignore_label: int | None,
    normalization: str,
) -> tuple[Array, Array]:
    """Return the labels, probabilities of the scores' shape or classes (N, ...), and the mask of
    those that count."""
    check_scores(op, scores)
    check_choice("loss: normalization", normalization, NORMALIZATIONS)
    if not 0 <= smoothing < 1:
        raise OpsError(f"{op}: smoothing is {smoothing}, expected at least 0 and less than 1")
    labels = xp.asarray(labels)
    places = (scores.shape[0], *scores.shape[2:])
    if scores.shape[1] > 1 and labels.shape == scores.shape:
        if ignore_label is not None:
            raise OpsError(
                f"{op}: ignore_label is {ignore_label}, expected None: labels are probabilities"
            )
        return labels.astype(scores.dtype, copy=False), xp.ones(places, bool)
    labels = labels.reshape(check_labels(op, scores, labels))
    valid = xp.ones(places, bool) if ignore_label is None else labels != ignore_label
    return labels, valid


def _faults(xp: Any, scores: Array, labels: Array, valid: Array) -> tuple[Array, Array]:
    """Return the mask of the labels that are neither a class nor probabilities, and for each label
    the number to name: the label, or a negative probability, or the sum of the probabilities."""
    if labels.ndim < scores.ndim:
        is_class = (labels >= 0) & (labels < scores.shape[1]) & (labels == xp.floor(labels))
        return valid & ~is_class, labels
    least = labels.min(axis=1)
    total = labels.sum(axis=1)
    fits = (least >= 0) & (abs(total - 1) <= CLOSE)
    return ~fits, xp.where(least < 0, least, total)


def _one_of(xp: Any, wrong: Array, told: Array) -> Array:
    """The number to name of the first wrong label, -1 for a NaN; NaN if no label is wrong."""
    number = xp.take(told.reshape(-1), xp.argmax(wrong.reshape(-1)))
    named = xp.where(number == number, number, -1.0)
    return xp.where(wrong.any(), named, math.nan)  # type: ignore[no-any-return]


def _index(xp: Any, labels: Array, valid: Array, classes: int) -> Array:
    """Class numbers as integers, 0 where a label does not count or is no class."""
    known = valid & (labels >= 0) & (labels < classes)
    return xp.where(known, labels, 0).astype(np.int64)  # type: ignore[no-any-return]


def _expected_score(
    xp: Any, scores: Array, labels: Array, valid: Array, smoothing: float
) -> tuple[Array, Any]:
    """The sum of t * score over the classes, in float64, and the sum of t."""
    mean = xp.sum(scores, axis=1, dtype=np.float64) * (smoothing / scores.shape[1])
    if labels.ndim == scores.ndim:
        product = xp.sum(labels * scores, axis=1, dtype=np.float64)
        weight = xp.sum(labels, axis=1, dtype=np.float64) * (1 - smoothing) + smoothing
        return product * (1 - smoothing) + mean, weight
    own = scores[own_scores(xp, _index(xp, labels, valid, scores.shape[1]))].astype(np.float64)
    return own * (1 - smoothing) + mean, 1.0


def _divisor(xp: Any, valid: Array, ignore_label: int | None, normalization: str) -> Any:
    """The divisor of a summed loss, on the device where it depends on the labels."""
    if normalization == "VALID" and ignore_label is not None:
        return xp.maximum(xp.sum(valid), 1)
    if normalization == "VALID":
        return float(valid.size)
    return divisor(valid, normalization)
