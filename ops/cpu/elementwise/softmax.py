"""Softmax of rows and its loss for labels in float32, as a net has them, without an intermediate
array.

The reference handles classes on other axes and other labels, and raises the errors about labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.cpu.codegen.code import Code, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.target import host
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, address
from ops.errors import Array
from ops.reference.loss import LEAST_PROBABILITY, NORMALIZATIONS

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
# coefficients of exp for |x| up to ln(2) / 2: wrong by 1e-7 at most
TAYLOR = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
LEAST = -87.0  # a smaller number's exp is not a normal float32
NEVER = -(1 << 62)  # a number that no label has

ROWS = layout("x x_row y y_row rows width")
OWN = layout("x x_row labels ignored rows width own counts loss")
MARK = layout("x x_row y y_row labels ignored rows width counts by_count", "scale")


@generated(ROWS)
def softmax_rows(c: Code) -> None:
    """y = exp(x - max) / sum, row by row."""
    first, last = c.share(c.rows)
    for row in c.loop(first, last):
        x = c.x + row * c.x_row
        y = c.y + row * c.y_row
        largest = c.variable(c.constant(float("-inf")))
        for at, masks in c.columns(c.width, 1):
            value = c.only(c.load(x + at, masks[0]), masks[0], float("-inf"))
            largest.set(((value > largest.get()) | value.is_nan()).pick(value, largest.get()))
        top = c.across("fmax", largest.get())
        total = c.variable(c.constant(0))
        for at, masks in c.columns(c.width, 1):
            power = c.only(exp_of_negative(c, c.load(x + at, masks[0]) - top), masks[0], 0)
            total.set(total.get() + power)
            c.store(power, y + at, masks[0])
        share = c.constant(1) / c.across("fadd", total.get())
        for at, masks in c.columns(c.width, 1):
            c.store(c.load(y + at, masks[0]) * share, y + at, masks[0])


def exp_of_negative(c: Code, x: Vec) -> Vec:
    """exp of numbers that are not above 0: 2^n times a polynomial of the rest."""
    n, power = c.rounded(x * LOG2_E)
    rest = c.apply("fma", n, c.constant(-LN_2), x)
    result = c.constant(TAYLOR[0])
    for factor in TAYLOR[1:]:
        result = c.apply("fma", result, rest, c.constant(factor))
    found: Vec = (x < LEAST).pick(c.constant(0), result * power)
    return found


@generated(OWN)
def own_probabilities(c: Code) -> None:
    """Write each label's own probability (1 for ignored labels). counts: labels that count, labels
    that are not a class. loss: the sum of -log(own), in float64."""
    with c.when(c.number.equals(0)):
        one, counted, wrong = c.v.mask(c.whole(1).value), *_counted(c)
        for row in c.loop(0, c.rows):
            label = c.label(c.labels + row * 4)
            target = c.own + row * 4
            c.store(c.constant(1), target, one)
            with c.when(_counts(c, label)):
                c.store(c.load(c.x + row * c.x_row + label * 4, one), target, one)
        c.put(c.counts, counted)
        c.put(c.counts + 8, wrong)
        total = c.variable(c.widened(c.constant(0)))
        for at, masks in c.columns(c.rows, 1):
            total.set(total.get() - _log(c, c.only(c.load(c.own + at, masks[0]), masks[0], 1)))
        c.store_wide(c.across("fadd", total.get()), c.loss)


def _log(c: Code, x: Vec) -> Vec:
    """The natural logarithm of probabilities, in float64: n ln(2) + 2 artanh((m - 1) / (m + 1)), to
    1e-11."""
    n, m = map(c.widened, c.split((x < LEAST_PROBABILITY).pick(c.constant(LEAST_PROBABILITY), x)))
    ratio = (m - 1.0) / (m + 1.0)
    square = ratio * ratio
    series = ratio * 0.0
    for odd in (13, 11, 9, 7, 5, 3, 1):
        series = series * square + 2 / odd
    found: Vec = x.is_nan().pick(c.widened(x), n * LN_2 + series * ratio)
    return found


def _is_class(c: Code, label: Whole) -> Any:
    return (label < 0).pick(0, 1).equals(1) & (label < c.width)


def _counts(c: Code, label: Whole) -> Any:
    """Whether the label is a class and not ignored."""
    return label.equals(c.ignored).pick(0, 1).equals(1) & _is_class(c, label)


def _counted(c: Code) -> tuple[Whole, Whole]:
    """The number of labels that are not ignored, and of those among them that are not a class."""
    counted = c.variable(c.whole(0))
    wrong = c.variable(c.whole(0))
    for row in c.loop(0, c.rows):
        label = c.label(c.labels + row * 4)
        ignored = label.equals(c.ignored)
        counted.set(counted.get() + ignored.pick(0, 1))
        wrong.set(wrong.get() + (ignored | _is_class(c, label)).pick(0, 1))
    return counted.get(), wrong.get()


@generated(MARK)
def loss_gradient(c: Code) -> None:
    """y = scale * (x - 1 at the label's place), 0 in the rows of ignored labels. Nothing is written
    if a label is not a class.

    With `by_count` the scale is divided by the number of labels that count.
    """
    counted, wrong = _counted(c)
    with c.when(c.number.equals(0)):
        c.put(c.counts, wrong)
    one, (first, last) = c.v.mask(c.whole(1).value), c.share(c.rows)
    scale = c.scale / c.narrowed(c.widened(c.by_count.equals(1).pick(counted.most(1), 1)))
    for row in c.loop(first, wrong.equals(0).pick(last, first)):
        label = c.label(c.labels + row * 4)
        x = c.x + row * c.x_row
        y = c.y + row * c.y_row
        factor = c.variable(c.constant(0))
        with c.when(_counts(c, label)):
            factor.set(scale)
        for at, masks in c.columns(c.width, 1):
            c.store(c.load(x + at, masks[0]) * factor.get(), y + at, masks[0])
        with c.when(_counts(c, label)):
            place = y + label * 4
            c.store(c.load(place, one) - scale, place, one)


class Plan:
    """Blocks of arguments for scores of one shape, without addresses, and the arrays that the loss
    is computed from."""

    def __init__(self, rows: int, width: int, x_row: int, y_row: int) -> None:
        self.own = np.empty(rows, F32)
        self.loss = np.empty(host().lanes)
        self.counts = np.empty(2, np.int64)
        sizes = {"rows": rows, "width": width}
        self.softmax = softmax_rows.block(x_row=x_row, y_row=y_row, **sizes)
        self.find = own_probabilities.block(
            x_row=y_row,
            own=address(self.own),
            counts=address(self.counts),
            loss=address(self.loss),
            **sizes,
        )
        self.mark = loss_gradient.block(
            x_row=x_row, y_row=y_row, counts=address(self.counts), **sizes
        )


class Softmax(Fast):
    """Softmax and softmax loss of (N, C), or (N, C, 1, ...)."""

    _softmax_plans: dict[Any, Plan] | None = None

    def softmax_forward(self, scores: Array, axis: int = 1, out: Array | None = None) -> Array:
        """Fast along axis 1 if all later axes have size one."""
        if _rows(scores) and (axis == 1 or (axis == -1 and scores.ndim == 2)):
            prob = self.like(scores, out)
            plan = self._softmax_plan(scores, prob)
            if plan is not None:
                self._fill(plan, scores, prob)
                return prob
        return super().softmax_forward(scores, axis, out)

    def _softmax_plan(self, x: Array, y: Array) -> Plan | None:
        """The plan for x and a destination y; None if they do not fit."""
        if not _rows(y) or y.shape != x.shape or not y.flags.writeable:
            return None
        if self._softmax_plans is None:
            self._softmax_plans = {}
        key = x.shape[0], x.shape[1], x.strides[0], y.strides[0]
        plan = self._softmax_plans.get(key)
        if plan is None:
            plan = self._softmax_plans[key] = Plan(*key)
        return plan

    def _fill(self, plan: Plan, scores: Array, prob: Array) -> None:
        plan.softmax.x = address(scores)
        plan.softmax.y = address(prob)
        self.team.run(softmax_rows, plan.softmax)

    def softmax_loss_forward(
        self, scores: Array, labels: Array, *,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
        verdict: Array | None = None,
    ) -> tuple[float, Array]:  # fmt: skip
        """Fast for scores (N, C) or (N, C, 1, ...) and float32 labels."""
        self.team.spoil()  # the loss is a number
        if (
            verdict is None
            and _rows(scores)
            and _are_labels(labels, scores)
            and normalization in NORMALIZATIONS
        ):
            prob = self.like(scores, out)
            plan = self._softmax_plan(scores, prob)
            if plan is not None:
                self._fill(plan, scores, prob)
                plan.find.x = address(prob)
                plan.find.labels = address(labels)
                plan.find.ignored = NEVER if ignore_label is None else ignore_label
                self.team.run(own_probabilities, plan.find)
                if not plan.counts[1]:
                    return float(plan.loss[0]) / _divisor(plan, normalization), prob
        return super().softmax_loss_forward(
            scores,
            labels,
            ignore_label=ignore_label,
            normalization=normalization,
            out=out,
            verdict=verdict,
        )

    def softmax_loss_backward(
        self, prob: Array, labels: Array, *, loss_weight: float = 1.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
        verdict: Array | None = None,
    ) -> Array:  # fmt: skip
        """Fast for scores (N, C) or (N, C, 1, ...) and float32 labels."""
        self.team.spoil()  # Python looks whether the labels are valid
        if _rows(prob) and _are_labels(labels, prob) and normalization in NORMALIZATIONS:
            dx = self.like(prob, out)
            plan = self._softmax_plan(prob, dx)
            if plan is not None:
                mark = plan.mark
                mark.x = address(prob)
                mark.y = address(dx)
                mark.labels = address(labels)
                mark.ignored = NEVER if ignore_label is None else ignore_label
                mark.by_count = normalization == "VALID"
                mark.scale = float(loss_weight) / (
                    1 if mark.by_count else _divisor(plan, normalization)
                )
                self.team.run(loss_gradient, mark)
                if not plan.counts[0]:
                    return dx
        return super().softmax_loss_backward(
            prob,
            labels,
            loss_weight=loss_weight,
            ignore_label=ignore_label,
            normalization=normalization,
            out=out,
        )


def _rows(x: Array) -> bool:
    """Whether x is float32 (N, C) or (N, C, 1, ...), the classes side by side."""
    return (
        x.ndim >= 2 and x.dtype == F32 and 0 < x.size == x.shape[0] * x.shape[1]
        and (x.strides[1] == 4 or x.shape[1] == 1)
    )  # fmt: skip


def _are_labels(labels: Array, scores: Array) -> bool:
    """Whether the labels are float32 numbers side by side, one for each row of scores."""
    if not isinstance(labels, np.ndarray) or labels.dtype != F32 or not labels.flags.c_contiguous:
        return False
    return labels.shape in (
        (scores.shape[0], *scores.shape[2:]),
        (scores.shape[0], 1, *scores.shape[2:]),
    )


def _divisor(plan: Plan, normalization: str) -> float:
    rows = plan.own.size
    return float(
        {"VALID": max(1, int(plan.counts[0])), "FULL": rows, "BATCH_SIZE": rows, "NONE": 1}[
            normalization
        ]
    )
