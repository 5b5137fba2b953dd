"""Softmax and its loss on a device. With a destination for the verdict no call waits for the
device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ops.cuda.device import OnDevice
from ops.cuda.launch import divisor
from ops.errors import Array, OpsError, check_alike, check_axis, check_choice, check_out
from ops.reference import loss

STRIPS = 32  # strips of the classes of a row
LOSS_STRIPS = 256  # strips of the labels


class Losses(OnDevice):
    """Overrides softmax over axis 1 and its loss, for labels of the scores' dtype."""

    def softmax_forward(self, scores: Array, axis: int = 1, out: Array | None = None) -> Array:
        check_alike("softmax_forward", out, scores=scores)
        folded = (
            None
            if scores.size == 0
            else _folded(scores, check_axis("softmax_forward", axis, scores.ndim))
        )
        y = self.xp.empty_like(scores) if out is None else out
        into = None if folded is None else _folded(y, axis % scores.ndim)
        if folded is None or into is None:
            return super().softmax_forward(scores, axis, out)
        n, c, inner = folded.shape
        strips = min(STRIPS, c)
        sums = self.scratch.take("softmax", (n * inner * strips, 2), scores.dtype)
        count = n * inner * strips
        self.launch(
            "softmax_strips",
            count,
            scores.dtype,
            *_strided(folded),
            sums,
            count,
            divisor(strips),
            divisor(inner),
            c,
        )
        self.launch(
            "softmax",
            scores.size,
            scores.dtype,
            *_strided(folded),
            sums,
            *_strided(into),
            scores.size,
            divisor(c),
            divisor(inner),
            strips,
        )
        return y

    def softmax_loss_forward(
        self,
        scores: Array,
        labels: Array,
        *,
        ignore_label: int | None = None,
        normalization: str = "VALID",
        out: Array | None = None,
        verdict: Array | None = None,
    ) -> tuple[float, Array]:
        op = "softmax_loss_forward"
        loss.check_scores(op, scores)
        classes = self._labels(op, scores, labels)
        folded = _folded(scores, 1)
        check_choice("loss: normalization", normalization, loss.NORMALIZATIONS)
        check_out(op, "verdict", verdict, (loss.VERDICT,), scores.dtype)
        if folded is None:
            return super().softmax_loss_forward(
                scores,
                labels,
                ignore_label=ignore_label,
                normalization=normalization,
                out=out,
                verdict=verdict,
            )
        prob = self.softmax_forward(scores, 1, out)
        told = (
            self.scratch.take("verdict", (loss.VERDICT,), scores.dtype)
            if verdict is None
            else verdict
        )
        self._judge(prob, classes, ignore_label, normalization, told)
        if verdict is not None:
            return 0.0, prob
        found = self.to_host(told)
        if not math.isnan(found[1]):
            raise OpsError(f"{op}: {loss.no_class(found[1], scores.shape[1])}")
        return float(found[0]), prob

    def softmax_loss_backward(
        self,
        prob: Array,
        labels: Array,
        *,
        loss_weight: float = 1.0,
        ignore_label: int | None = None,
        normalization: str = "VALID",
        out: Array | None = None,
        verdict: Array | None = None,
    ) -> Array:
        op = "softmax_loss_backward"
        loss.check_scores(op, prob)
        classes = self._labels(op, prob, labels)
        folded = _folded(prob, 1)
        check_choice("loss: normalization", normalization, loss.NORMALIZATIONS)
        check_out(op, "out", out, prob.shape, prob.dtype)
        dx = self.xp.empty_like(prob) if out is None else out
        into = _folded(dx, 1)
        if folded is None or into is None:
            return super().softmax_loss_backward(
                prob,
                labels,
                loss_weight=loss_weight,
                ignore_label=ignore_label,
                normalization=normalization,
                out=out,
                verdict=verdict,
            )
        if verdict is None:
            verdict = self.scratch.take("verdict", (loss.VERDICT,), prob.dtype)
            self._judge(prob, classes, ignore_label, normalization, verdict)
            wrong = float(self.to_host(verdict)[1])
            if not math.isnan(wrong):
                raise OpsError(f"{op}: {loss.no_class(wrong, prob.shape[1])}")
        _, c, inner = folded.shape
        self.launch(
            "label_gradient",
            prob.size,
            prob.dtype,
            *_strided(folded),
            *_spread(classes, inner),
            verdict,
            *_strided(into),
            prob.size,
            divisor(c),
            divisor(inner),
            *_ignored(prob, ignore_label),
            prob.dtype.type(loss_weight),
        )
        return dx

    def _judge(
        self,
        prob: Array,
        labels: Array,
        ignore_label: int | None,
        normalization: str,
        verdict: Array,
    ) -> None:
        folded = _folded(prob, 1)
        assert folded is not None
        n, c, inner = folded.shape
        strips = min(LOSS_STRIPS, n * inner)
        share = loss.fixed_divisor(n, n * inner, ignore_label, normalization)
        sums = self.scratch.take("losses", (3 * strips,), np.float64)
        self.launch(
            "label_losses",
            strips,
            prob.dtype,
            *_strided(folded),
            *_spread(labels, inner),
            sums,
            strips,
            n * inner,
            divisor(inner),
            c,
            *_ignored(prob, ignore_label),
            prob.dtype.type(loss.LEAST_PROBABILITY),
        )
        self.launch("label_verdict", 1, prob.dtype, sums, verdict, strips, np.float64(share))

    def _labels(self, op: str, scores: Array, labels: Array) -> Array:
        """The labels (N, inner) in the scores' dtype, in C order."""
        labels = self.asarray(labels)
        loss.check_labels(op, scores, labels)
        inner = math.prod(scores.shape[2:])
        alike = labels.dtype == scores.dtype
        found = self.contiguous(labels if alike else self.xp.asarray(labels, scores.dtype))
        return found.reshape(scores.shape[0], inner)


def _folded(x: Array, axis: int) -> Array | None:
    """x as (before, classes, behind), a view, if its strides allow one."""
    if x.ndim == 3 and axis == 1:
        return x
    if x.ndim == 2 and axis == 1:
        return x[:, :, None]
    before = math.prod(x.shape[:axis])
    behind = math.prod(x.shape[axis + 1 :])
    folded: Array | None = (
        x.reshape(before, x.shape[axis], behind) if x.flags.c_contiguous else None
    )
    return folded


def _strided(x: Array) -> tuple[Any, ...]:
    """The array and its strides in elements."""
    return (x, *(np.int64(stride // x.itemsize) for stride in x.strides))


def _spread(labels: Array, inner: int) -> tuple[Any, ...]:
    return labels, np.int64(inner), np.int64(1)


def _ignored(scores: Array, label: int | None) -> tuple[Any, ...]:
    return int(label is not None), scores.dtype.type(0 if label is None else label)
