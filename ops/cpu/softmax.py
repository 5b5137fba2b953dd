"""The softmax loss of rows of scores, forward and backward: one pass over each row while it is in the cache.

What never lives here: other axes and label types, complaints (`ops.loss`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ops.cpu.base import Fast
from ops.cpu.compiled import addresses
from ops.cpu.ir_tools import F32, I32, I64, Vectors, counted, function
from ops.cpu.kernel import arguments, doubles, floats, kernel, layout
from ops.cpu.operands import F32 as FLOAT
from ops.cpu.operands import address
from ops.cpu.smooth import LOWEST, exp_negative
from ops.cpu.target import host
from ops.errors import Array
from ops.loss import LEAST_PROBABILITY, NORMALIZATIONS

MOST_LOSS = -math.log(LEAST_PROBABILITY)  # where Caffe cuts it
LINE = 8  # float64 numbers apart: what each thread found
FOUND = 3  # the sum of losses, the labels that count, the labels that are none; behind them a row's maximum and sum


@functools.cache
def row_kernel() -> int:
    """The address of `_write`'s kernel on this machine, compiled or loaded on first use."""
    return addresses("softmax", _write)("softmax")


def _write(module: ir.Module) -> None:
    """softmax(x, y, count, sums): y = exp(x - max) / sum, count neighbours; sums = (max, sum). NaN goes into all."""
    b, a = function(module, "softmax", [(name, I64) for name in ("x", "y", "count", "sums")])
    v = Vectors(b, host().lanes)
    with b.goto_entry_block():
        most, total = b.alloca(v.type), b.alloca(v.type)
    lowest = v.constant(-math.inf)
    b.store(lowest, most)
    b.store(v.constant(0), total)

    def place(name: str, index: ir.Value) -> tuple[ir.Value, ir.Value]:
        return b.add(a[name], b.mul(index, I64(4))), v.mask(b.sub(a["count"], index))

    def larger(x: ir.Value, y: ir.Value) -> ir.Value:
        return b.select(b.fcmp_ordered(">", x, y), x, y)

    def highest(index: ir.Value) -> None:
        at, mask = place("x", index)
        b.store(larger(b.select(mask, v.load(at, mask), lowest), b.load(most)), most)

    def powers(index: ir.Value) -> None:
        at, mask = place("x", index)
        below = b.fsub(top, v.load(at, mask))
        e = exp_negative(v, below)
        e = b.select(b.fcmp_ordered(">", below, v.constant(-LOWEST)), v.constant(0), e)
        b.store(b.fadd(b.load(total), b.select(mask, e, v.constant(0))), total)
        v.store(e, *place("y", index))

    def shares(index: ir.Value) -> None:
        at, mask = place("y", index)
        v.store(b.fmul(v.load(at, mask), share), at, mask)

    counted(b, a["count"], v.lanes, highest)
    top = _everywhere(v, b.load(most), larger)
    counted(b, a["count"], v.lanes, powers)
    whole = _everywhere(v, b.load(total), b.fadd)
    share = b.fdiv(v.constant(1), whole)
    counted(b, a["count"], v.lanes, shares)
    for at, value in enumerate((top, whole)):
        place_of = b.inttoptr(b.add(a["sums"], I64(4 * at)), F32.as_pointer())
        b.store(b.extract_element(value, I32(0)), place_of)
    b.ret_void()


def _everywhere(v: Vectors, x: ir.Value, join: Any) -> ir.Value:
    """All lanes joined, in every lane."""
    step = v.lanes // 2
    while step:
        picks = ir.Constant(ir.VectorType(I32, v.lanes), [lane ^ step for lane in range(v.lanes)])
        x = join(x, v.b.shuffle_vector(x, x, picks))
        step //= 2
    return x


@intrinsic
def call_softmax(tc, kernel, x, y, count, sums):  # type: ignore[no-untyped-def]
    """Call the row kernel at address `kernel`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [I64] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


_FORWARD = layout("softmax x sx p sp labels rows count found ignores", "ignored most_loss")


@kernel(_FORWARD)
def loss_forward(number: int, size: int, at: Any) -> None:
    """p = softmax of the rows of x; this thread's sum of losses, and how many labels count and how many are wrong."""
    a = arguments(at)
    found, labels = doubles(a.found + number * LINE * 8, FOUND), floats(a.labels, a.rows)
    at_sums = a.found + (number * LINE + FOUND) * 8
    sums = floats(at_sums, 2)
    loss, counting, wrong = 0.0, 0, 0
    for row in range(a.rows * number // size, a.rows * (number + 1) // size):
        label, own = labels[row], 0.0
        counts = not (a.ignores and label == a.ignored)
        if counts and not (label >= 0 and label < a.count and label == np.floor(label)):
            counts = False
            wrong += 1
        if counts:  # before p is written: it may lie where x does
            own = np.float64(floats(a.x + row * a.sx, a.count)[int(label)])
        call_softmax(a.softmax, a.x + row * a.sx, a.p + row * a.sp, a.count, at_sums)
        if counts:
            counting += 1
            own = np.float64(sums[0]) - own + np.log(np.float64(sums[1]))
            if own > a.most_loss:  # not min: a NaN stays one
                own = a.most_loss
            loss += own
    found[0], found[1], found[2] = loss, counting, wrong


_BACKWARD = layout("p sp dx sdx labels rows count found ignores valid", "ignored factor")


@kernel(_BACKWARD)
def loss_backward(number: int, size: int, at: Any) -> None:
    """dx = (p - 1 at the label) * factor, over the labels that count if `valid`; 0 where ignored."""
    a = arguments(at)
    found, labels = doubles(a.found + number * LINE * 8, FOUND), floats(a.labels, a.rows)
    counting, wrong = 0, 0
    for row in range(a.rows):
        label = labels[row]
        if not (a.ignores and label == a.ignored):
            counting += 1
            if not (label >= 0 and label < a.count and label == np.floor(label)):
                wrong += 1
    found[2] = wrong
    if wrong:
        return
    factor = a.factor / np.float32(max(counting, 1)) if a.valid else a.factor
    for row in range(a.rows * number // size, a.rows * (number + 1) // size):
        p, dx, label = floats(a.p + row * a.sp, a.count), floats(a.dx + row * a.sdx, a.count), labels[row]
        if a.ignores and label == a.ignored:
            for i in range(a.count):
                dx[i] = np.float32(0)
        else:
            own = (p[int(label)] - np.float32(1)) * factor
            for i in range(a.count):
                dx[i] = p[i] * factor
            dx[int(label)] = own


class SoftmaxLoss(Fast):
    """The softmax loss of `CpuBackend`: float32 scores and labels, a row of neighbours for each label."""

    _found: np.ndarray[Any, np.dtype[np.float64]] | None = None

    def softmax_loss_forward(
        self, scores: Array, labels: Array, *,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
    ) -> tuple[float, Array]:  # fmt: skip
        """As Backend's."""
        prob = np.empty_like(scores) if out is None and _rows(scores) else out
        if prob is None or normalization not in NORMALIZATIONS or not _fit(scores, labels, prob):
            return super().softmax_loss_forward(
                scores, labels, ignore_label=ignore_label, normalization=normalization, out=out
            )
        found = self._results()
        block = _FORWARD(
            softmax=row_kernel(), x=address(scores), sx=scores.strides[0], p=address(prob), sp=prob.strides[0],
            labels=address(labels), rows=len(scores), count=scores.shape[1], found=address(found),
            most_loss=MOST_LOSS, **_ignoring(ignore_label),
        )  # fmt: skip
        self.team.run(loss_forward, block)
        loss, counting, wrong = (sum(found[at::LINE].tolist()) for at in range(FOUND))
        if wrong:
            return super().softmax_loss_forward(
                scores, labels, ignore_label=ignore_label, normalization=normalization, out=out
            )
        return loss / _divisor(normalization, len(scores), counting), prob

    def softmax_loss_backward(
        self, prob: Array, labels: Array, *, loss_weight: float = 1.0,
        ignore_label: int | None = None, normalization: str = "VALID", out: Array | None = None,
    ) -> Array:  # fmt: skip
        """As Backend's."""
        dx = np.empty_like(prob) if out is None and _rows(prob) else out
        if dx is not None and normalization in NORMALIZATIONS and _fit(prob, labels, dx):
            found, valid = self._results(), normalization == "VALID"
            block = _BACKWARD(
                p=address(prob), sp=prob.strides[0], dx=address(dx), sdx=dx.strides[0], labels=address(labels),
                rows=len(prob), count=prob.shape[1], found=address(found), valid=valid,
                factor=float(loss_weight) / (1.0 if valid else _divisor(normalization, len(prob), 0)),
                **_ignoring(ignore_label),
            )  # fmt: skip
            self.team.run(loss_backward, block)
            if not found[2]:
                return dx
        return super().softmax_loss_backward(
            prob, labels, loss_weight=loss_weight, ignore_label=ignore_label, normalization=normalization, out=out
        )

    def _results(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        if self._found is None:
            self._found = np.zeros(self.team.size * LINE)
        return self._found


def _rows(x: Array) -> bool:
    """Whether x (N, C) or (N, C, 1, ...) is float32 rows of neighbours."""
    return (
        x.ndim >= 2 and x.dtype == FLOAT and x.size > 0 and x.size == x.shape[0] * x.shape[1]
        and (x.strides[1] == 4 or x.shape[1] == 1)
    )  # fmt: skip


def _fit(x: Array, labels: Array, out: Array) -> bool:
    """Whether the kernels can read x and the labels and write to `out`."""
    return (
        _rows(x) and _rows(out) and out.shape == x.shape and out.flags.writeable and labels.dtype == FLOAT
        and labels.flags.c_contiguous and labels.shape in ((len(x), *x.shape[2:]), (len(x), 1, *x.shape[2:]))
    )  # fmt: skip


def _ignoring(label: int | None) -> dict[str, float]:
    return {"ignores": int(label is not None), "ignored": 0.0 if label is None else float(label)}


def _divisor(normalization: str, rows: int, counting: float) -> float:
    """As `ops.loss.divisor` where there is one label for each row."""
    return {"VALID": max(1.0, counting), "NONE": 1.0}.get(normalization, float(rows))
