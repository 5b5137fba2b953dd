"""Updates of many parameters in one launch, and the sums of a table's rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ops.cuda.device import OnDevice
from ops.cuda.image_layout import address
from ops.cuda.kernels.updates import RULES
from ops.cuda.launch import NOTHING
from ops.errors import Array, OpsError, check_choice, check_float, check_shape
from ops.interface.updates import Parameter
from ops.reference.update import REGULARIZATIONS

KEPT = 64  # tables on the device: a model server's versions take turns at a few places in memory


class Updates(OnDevice):
    """Overrides the update of many parameters, and `sum_rows`."""

    updates_together = True
    _tables: dict[tuple[Any, ...], tuple[Array, Array]] | None = None

    def update_together(
        self,
        rule: str,
        parameters: Sequence[Parameter],
        *,
        rate: float,
        decay: float,
        regularization: str,
        numbers: Mapping[str, float],
        step: int,
        given: Array | None = None,
    ) -> None:
        check_choice("update: regularization", regularization, REGULARIZATIONS)
        if not parameters:
            return
        dtype = parameters[0].w.dtype
        parameters = [
            one if one.g.flags.c_contiguous else replace(one, g=self.contiguous(one.g))
            for one in parameters
        ]
        table, factors = self._table(parameters)
        own = map(dtype.type, self.update_numbers(rule, rate=rate, numbers=numbers, step=step))
        count = sum(one.w.size for one in parameters)
        self.launch(
            "update", count, dtype, table, factors, len(parameters), count, RULES.index(rule),
            int(regularization == "L1"), dtype.type(decay), *own,
            NOTHING if given is None else given,
        )  # fmt: skip

    def update_numbers(
        self, rule: str, *, rate: float, numbers: Mapping[str, float], step: int
    ) -> tuple[float, ...]:
        check_choice("update: rule", rule, RULES)
        a = numbers["rms_decay"] if rule == "RMSProp" else numbers.get("momentum", 0.0)
        b = numbers.get("momentum2", 0.0)
        c = 0.0
        delta = numbers.get("delta", 0.0)
        if rule in ("Adam", "AdamW"):
            root = math.sqrt(1 - b**step)
            c = root / (1 - a**step)
            delta *= root if rule == "AdamW" else 1.0
        return rate, a, b, c, delta

    def _table(self, parameters: Sequence[Parameter]) -> tuple[Array, Array]:
        """The kernel's table and factors, on the device. They are sent there once for the same
        arrays."""
        tables = self._tables = {} if self._tables is None else self._tables
        lie = [tuple(map(_lies, (one.w, one.g, one.out, *one.histories))) for one in parameters]
        factors = [
            (one.rate, one.decay, -1.0 if one.keep is None else one.keep) for one in parameters
        ]
        key = (*lie, *factors)
        found = tables.get(key)
        if found is None:
            _check(parameters)
            if len(tables) == KEPT:
                tables.pop(next(iter(tables)))
            ends = itertools.accumulate(one.w.size for one in parameters)
            lines = [
                (*(*(at for at, *_ in of), 0, 0)[:5], end)
                for of, end in zip(lie, ends, strict=True)
            ]
            dtype = parameters[0].w.dtype
            found = tables[key] = (
                self.asarray(np.array(lines, np.int64)),
                self.asarray(np.array(factors, dtype)),
            )
        return found

    def sum_rows(self, rows: Array, values: Array, out: Array) -> None:
        check_float("sum_rows", values=values, out=out)
        check_shape("sum_rows", "rows", rows, values.shape[:1])
        xp = self.xp
        order = xp.argsort(rows, kind="stable")
        starts = xp.searchsorted(rows[order], xp.arange(out.shape[0] + 1), side="left").astype(
            np.int64
        )
        into = out if out.flags.c_contiguous else xp.empty(out.shape, out.dtype)
        sources = (xp.ascontiguousarray(values), order.astype(np.int64), starts)
        self.launch("sum_rows", out.size, out.dtype, *sources, into, *out.shape)
        self.delivered(into, out)


def _lies(x: Array) -> tuple[Any, ...]:
    """The address, shape, strides and dtype of an array."""
    return address(x), x.shape, x.strides, x.dtype


def _check(parameters: Sequence[Parameter]) -> None:
    for one in parameters:
        check_float("update", w=parameters[0].w, **one.arrays())
        for name, array in one.arrays().items():
            check_shape("update", name, array, one.w.shape)
            if not array.flags.c_contiguous:
                raise OpsError(f"update: {name} has strides {array.strides}, expected C order")
