"""Softmax of rows and its loss for labels that are int64 numbers, without an intermediate array.

What never lives here: classes on other axes, other labels, and complaints about labels: the reference has them.
"""

from __future__ import annotations

import numpy as np

from ops.cpu.base import Fast
from ops.cpu.code import Code, generated
from ops.cpu.kernel import layout
from ops.cpu.operands import F32, address
from ops.cpu.values import Vec
from ops.errors import Array
from ops.loss import LEAST_PROBABILITY, NORMALIZATIONS

LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
TAYLOR = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)  # of exp up to |x| = ln(2) / 2: wrong by 1e-7 at most
LEAST = -87.0  # exp of less has no normal float32
NEVER = -(1 << 62)  # no label

ROWS = layout("x x_row y y_row rows width")
OWN = layout("x x_row labels ignored rows width own valid wrong")
MARK = layout("x x_row y y_row labels ignored rows width", "scale")


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
            power = c.only(_exp(c, c.load(x + at, masks[0]) - top), masks[0], 0)
            total.set(total.get() + power)
            c.store(power, y + at, masks[0])
        share = c.constant(1) / c.across("fadd", total.get())
        for at, masks in c.columns(c.width, 1):
            c.store(c.load(y + at, masks[0]) * share, y + at, masks[0])


def _exp(c: Code, x: Vec) -> Vec:
    """exp of numbers that are not above 0: 2^n times a polynomial of what remains."""
    x = (x < LEAST).pick(c.constant(LEAST), x)
    n = c.apply("rint", x * LOG2_E)
    rest = c.apply("fma", n, c.constant(-LN_2), x)
    result = c.constant(TAYLOR[0])
    for factor in TAYLOR[1:]:
        result = c.apply("fma", result, rest, c.constant(factor))
    return result * c.power_of_two(n)


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
    """Softmax and softmax loss of (N, C)."""

    _own: tuple[Array, Array, Array] | None = None

    def softmax_forward(self, scores: Array, axis: int = 1, out: Array | None = None) -> Array:
        """As Backend's; fast along the last of two axes."""
        if _rows(scores) and axis in (1, -1):
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
        """As Backend's; fast for scores (N, C) and int64 labels."""
        if _rows(scores) and _numbers(labels, scores.shape[0]) and normalization in NORMALIZATIONS:
            prob = self.softmax_forward(scores, 1, out)
            losses, counted, wrong = self._losses(prob, labels, ignore_label)
            if not wrong:
                return losses / _divisor(counted, scores.shape[0], normalization), prob
        return super().softmax_loss_forward(
            scores, labels, ignore_label=ignore_label, normalization=normalization, out=out
        )

    def _losses(self, prob: Array, labels: Array, ignore_label: int | None) -> tuple[float, int, int]:
        """The sum of the losses, how many labels count, how many are out of range."""
        rows = prob.shape[0]
        if self._own is None or self._own[0].size < rows:
            self._own = np.empty(rows, F32), np.empty(rows, np.float64), np.empty(2, np.int64)
        own, wide, counts = self._own
        block = own_probabilities.block(
            x=address(prob), x_row=prob.strides[0], labels=address(labels), rows=rows, width=prob.shape[1],
            ignored=NEVER if ignore_label is None else ignore_label, own=address(own), valid=address(counts),
            wrong=address(counts) + 8,
        )  # fmt: skip
        self.team.run(own_probabilities, block)
        losses = wide[:rows]
        np.maximum(own[:rows], LEAST_PROBABILITY, out=losses)
        np.log(losses, out=losses)
        return -float(losses.sum()), int(counts[0]), int(counts[1])

    def softmax_loss_backward(
        self, prob: Array, labels: Array, *, loss_weight: float = 1.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
    ) -> Array:  # fmt: skip
        """As Backend's; fast for scores (N, C) and int64 labels."""
        if _rows(prob) and _numbers(labels, prob.shape[0]) and normalization in NORMALIZATIONS:
            _, counted, wrong = self._losses(prob, labels, ignore_label)
            dx = self.like(prob, out)
            if not wrong and _rows(dx) and dx.shape == prob.shape and dx.flags.writeable:
                block = loss_gradient.block(
                    x=address(prob), x_row=prob.strides[0], y=address(dx), y_row=dx.strides[0], labels=address(labels),
                    ignored=NEVER if ignore_label is None else ignore_label, rows=prob.shape[0], width=prob.shape[1],
                    scale=float(loss_weight) / _divisor(counted, prob.shape[0], normalization),
                )  # fmt: skip
                self.team.run(loss_gradient, block)
                return dx
        return super().softmax_loss_backward(
            prob, labels, loss_weight=loss_weight, ignore_label=ignore_label, normalization=normalization, out=out
        )


def _rows(x: Array) -> bool:
    return x.ndim == 2 and x.dtype == F32 and x.size > 0 and (x.strides[1] == 4 or x.shape[1] == 1)


def _numbers(labels: Array, count: int) -> bool:
    """Whether the labels are `count` int64 numbers side by side."""
    return (
        isinstance(labels, np.ndarray) and labels.dtype == np.int64 and labels.flags.c_contiguous
        and labels.shape in ((count,), (count, 1))
    )  # fmt: skip


def _divisor(counted: int, rows: int, normalization: str) -> float:
    return float({"VALID": max(1, counted), "FULL": rows, "BATCH_SIZE": rows, "NONE": 1}[normalization])
