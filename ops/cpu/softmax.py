"""Softmax of rows and its loss for labels that are int64 or float32 numbers, without an intermediate array.

What never lives here: classes on other axes, other labels, and complaints about labels: the reference has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.base import Fast
from ops.cpu.code import Code, generated
from ops.cpu.kernel import arguments, floats, integers, kernel, layout
from ops.cpu.operands import F32, address
from ops.cpu.smooth import LOWEST, exp_negative
from ops.cpu.values import Vec
from ops.errors import Array
from ops.loss import LEAST_PROBABILITY, NORMALIZATIONS

NEVER, BROKEN = -(1 << 62), -(1 << 61)  # no label; a number that is not whole

ROWS = layout("x x_row y y_row rows width")
OWN = layout("x x_row labels ignored rows width own valid wrong")
MARK = layout("x x_row y y_row labels ignored rows width", "scale")


LABELS = layout("labels whole rows")


@kernel(LABELS)
def whole_numbers(number: int, size: int, at: Any) -> None:
    """whole = the float32 labels, BROKEN where one is not whole."""
    a = arguments(at)
    labels, whole = floats(a.labels, a.rows), integers(a.whole, a.rows)
    for row in range(a.rows * number // size, a.rows * (number + 1) // size):
        label = labels[row]
        whole[row] = int(label) if label == np.floor(label) and abs(label) < 2.0**53 else BROKEN


@generated(ROWS)
def softmax_rows(c: Code) -> None:
    """y = exp(x - max) / sum, row by row."""
    first, last = c.share(c.rows)
    for row in c.loop(first, last):
        x, y = c.x + row * c.x_row, c.y + row * c.y_row
        largest = c.variable(c.constant(float("-inf")))
        for at, masks in c.columns(c.width, 1):
            value = c.only(c.load(x + at, masks[0]), masks[0], float("-inf"))
            largest.set(((value > largest.get()) | value.is_nan()).pick(value, largest.get()))
        top = c.across("fmax", largest.get())
        total = c.variable(c.constant(0))
        for at, masks in c.columns(c.width, 1):
            below = top - c.load(x + at, masks[0])
            power = c.only((below > -LOWEST).pick(c.constant(0), Vec(c.b, exp_negative(c.v, below.value))), masks[0], 0)
            total.set(total.get() + power)
            c.store(power, y + at, masks[0])
        share = c.constant(1) / c.across("fadd", total.get())
        for at, masks in c.columns(c.width, 1):
            c.store(c.load(y + at, masks[0]) * share, y + at, masks[0])


@generated(OWN)
def own_probabilities(c: Code) -> None:
    """own = each label's own probability, 1 for ignored ones; how many count; how many are out of range."""
    with c.when(c.number.equals(0)):
        zero = c.whole(0)
        counted, wrong, one = c.variable(zero), c.variable(zero), c.v.mask(c.whole(1).value)
        for row in c.loop(0, c.rows):
            label, target = c.get(c.labels + row * 8), c.own + row * 4
            ignored, outside = label.equals(c.ignored), (label < 0) | (c.width < label + 1)
            c.store(c.constant(1), target, one)
            counted.set(counted.get() + ignored.pick(0, 1))
            wrong.set(wrong.get() + ignored.pick(0, outside.pick(1, 0)))
            with c.when(ignored.pick(0, outside.pick(0, 1)).equals(1)):
                c.store(c.load(c.x + row * c.x_row + label * 4, one), target, one)
        c.put(c.valid, counted.get())
        c.put(c.wrong, wrong.get())


@generated(MARK)
def loss_gradient(c: Code) -> None:
    """y = scale * (x - 1 at the label's place), 0 in the rows of ignored labels."""
    one = c.v.mask(c.whole(1).value)
    first, last = c.share(c.rows)
    for row in c.loop(first, last):
        label = c.get(c.labels + row * 8)
        ignored = label.equals(c.ignored)
        factor = c.variable(c.scale)
        with c.when(ignored):
            factor.set(c.constant(0))
        x, y = c.x + row * c.x_row, c.y + row * c.y_row
        for at, masks in c.columns(c.width, 1):
            c.store(c.load(x + at, masks[0]) * factor.get(), y + at, masks[0])
        with c.when(ignored.pick(0, 1).equals(1)):
            place = y + label * 4
            c.store(c.load(place, one) - c.scale, place, one)


class Softmax(Fast):
    """Softmax and softmax loss of (N, C) and (N, C, 1, ...)."""

    _own: tuple[Array, Array, Array, Array] | None = None

    def softmax_forward(self, scores: Array, axis: int = 1, out: Array | None = None) -> Array:
        """As Backend's; fast along axis 1 if all behind it have one place."""
        if _rows(scores) and (axis == 1 or (axis == -1 and scores.ndim == 2)):
            prob = self.like(scores, out)
            if _rows(prob) and prob.shape == scores.shape and prob.flags.writeable:
                block = softmax_rows.block(
                    x=address(scores), x_row=scores.strides[0], y=address(prob), y_row=prob.strides[0],
                    rows=scores.shape[0], width=scores.shape[1],
                )  # fmt: skip
                self.team.run(softmax_rows, block)
                return prob
        return super().softmax_forward(scores, axis, out)

    def softmax_loss_forward(
        self, scores: Array, labels: Array, *,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
    ) -> tuple[float, Array]:  # fmt: skip
        """As Backend's; fast for rows of scores."""
        if _rows(scores) and _numbers(labels, scores) and normalization in NORMALIZATIONS:
            prob = self.softmax_forward(scores, 1, out)
            whole = self._whole(labels, len(scores))
            losses, counted, wrong = self._losses(prob, whole, ignore_label)
            if not wrong:
                return losses / _divisor(counted, len(scores), normalization), prob
        return super().softmax_loss_forward(
            scores, labels, ignore_label=ignore_label, normalization=normalization, out=out
        )

    def softmax_loss_backward(
        self, prob: Array, labels: Array, *, loss_weight: float = 1.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
    ) -> Array:  # fmt: skip
        """As Backend's; fast for rows of probabilities."""
        if _rows(prob) and _numbers(labels, prob) and normalization in NORMALIZATIONS:
            whole = self._whole(labels, len(prob))
            counted, wrong = self._own_probabilities(prob, whole, ignore_label)
            dx = self.like(prob, out)
            if not wrong and _rows(dx) and dx.shape == prob.shape and dx.flags.writeable:
                block = loss_gradient.block(
                    x=address(prob), x_row=prob.strides[0], y=address(dx), y_row=dx.strides[0], labels=whole,
                    ignored=NEVER if ignore_label is None else ignore_label, rows=len(prob), width=prob.shape[1],
                    scale=float(loss_weight) / _divisor(counted, len(prob), normalization),
                )  # fmt: skip
                self.team.run(loss_gradient, block)
                return dx
        return super().softmax_loss_backward(
            prob, labels, loss_weight=loss_weight, ignore_label=ignore_label, normalization=normalization, out=out
        )

    def _label_arrays(self, rows: int) -> tuple[Array, Array, Array, Array]:
        """Own probabilities in float32 and float64, labels, counts."""
        if self._own is None or self._own[0].size < rows:
            self._own = np.empty(rows, F32), np.empty(rows), np.empty(rows, np.int64), np.empty(2, np.int64)
        return self._own

    def _whole(self, labels: Array, rows: int) -> int:
        """The address of the labels as int64 numbers."""
        if labels.dtype == np.int64:
            return address(labels)
        whole = address(self._label_arrays(rows)[2])
        self.team.run(whole_numbers, whole_numbers.block(labels=address(labels), whole=whole, rows=rows))
        return whole

    def _own_probabilities(self, prob: Array, labels: int, ignore_label: int | None) -> tuple[int, int]:
        """How many labels count, how many are none."""
        own, _, _, counts = self._label_arrays(len(prob))
        block = own_probabilities.block(
            x=address(prob), x_row=prob.strides[0], labels=labels, rows=len(prob), width=prob.shape[1],
            ignored=NEVER if ignore_label is None else ignore_label, own=address(own), valid=address(counts),
            wrong=address(counts) + 8,
        )  # fmt: skip
        self.team.run(own_probabilities, block)
        return int(counts[0]), int(counts[1])

    def _losses(self, prob: Array, labels: int, ignore_label: int | None) -> tuple[float, int, int]:
        """The sum of the losses, how many labels count, how many are none."""
        counted, wrong = self._own_probabilities(prob, labels, ignore_label)
        own, wide, _, _ = self._label_arrays(len(prob))
        losses = wide[: len(prob)]
        np.maximum(own[: len(prob)], LEAST_PROBABILITY, out=losses)
        np.log(losses, out=losses)
        return -float(losses.sum()), counted, wrong


def _rows(x: Array) -> bool:
    """Whether x (N, C) or (N, C, 1, ...) is float32 rows of neighbours."""
    return (
        x.ndim >= 2 and x.dtype == F32 and x.size > 0 and x.size == x.shape[0] * x.shape[1]
        and (x.strides[1] == 4 or x.shape[1] == 1)
    )  # fmt: skip


def _numbers(labels: Array, scores: Array) -> bool:
    """Whether the labels of such scores are int64 or float32 numbers side by side."""
    rows, rest = scores.shape[0], scores.shape[2:]
    return (
        isinstance(labels, np.ndarray) and labels.dtype in (np.int64, F32) and labels.flags.c_contiguous
        and labels.shape in ((rows, *rest), (rows, 1, *rest))
    )  # fmt: skip


def _divisor(counted: int, rows: int, normalization: str) -> float:
    return float({"VALID": max(1, counted), "FULL": rows, "BATCH_SIZE": rows, "NONE": 1}[normalization])
