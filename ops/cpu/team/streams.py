"""Kernels that pass once over arrays of one shape, element by element: read every input, write
every output.

A `Stream` is a formula over vectors. All streams share their loops, threads and remainders, and
operands that repeat from row to row (a number per channel). Each of the other arrays may hold
float32 or bfloat16 numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ops.cpu.codegen.code import Code, Generated
from ops.cpu.codegen.ir_tools import MASKED
from ops.cpu.codegen.kernel import layout
from ops.cpu.team.operands import F32, LARGE, Rows, goes_past, halves, rows_of, seen
from ops.cpu.team.team import Team
from ops.cpu.team.workspace import LINE
from ops.errors import Array

GRAIN = 64  # elements of one long row that threads divide between them
UNROLLED = 4  # vectors at a time
# Numbers from a read to the prefetch for later reads. Without prefetches a long formula waits for
# memory. With them and vectors of 8 lanes, a large GELU takes 0.84 of the time, and 0.55 backward.
# 128 and 256 numbers gain less. Vectors of 16 lanes go without: their gain was not measured.
AHEAD = 512

Formula = Callable[..., Sequence[Any]]


class Stream:
    """`formula(code, *inputs, *numbers)` returns the outputs. The other arguments are names,
    separated by spaces: outputs, inputs, float arguments (`numbers`), and inputs that are one row
    repeated (`fixed`)."""

    def __init__(
        self,
        name: str,
        outputs: str,
        inputs: str,
        formula: Formula,
        numbers: str = "",
        fixed: str = "",
    ) -> None:
        self.outputs = outputs.split()
        self.inputs = inputs.split()
        self.fixed = fixed.split()
        self.whole = [*self.outputs, *self.inputs]
        self.numbers = numbers.split()
        self._formula = formula
        operands = [*self.whole, *self.fixed]
        steps = [f"step_{name}" for name in self.whole]
        self.block = layout(" ".join([*operands, "rows", "length", "skip", *steps]), numbers)
        self.kernel = Generated(f"stream_{name}", self.block, self._write)

    def _write(self, c: Code) -> None:
        """The threads share the rows, or the parts of a single row. Thread 0 takes the first `skip`
        elements of a single row."""
        alone = c.rows.equals(1)
        (first_row, last_row), (first, last) = c.share(c.rows), c.share(c.length - c.skip, GRAIN)
        first_row = alone.pick(0, first_row)
        last_row = alone.pick(1, last_row)
        first = alone.pick(first + c.skip, 0)
        last = alone.pick(last + c.skip, c.length)
        with c.when(alone & c.number.equals(0)):
            self._columns(c, c.whole(0), (c.whole(0), c.skip), 1, c.write)
        for row in c.loop(first_row, last_row):
            self._columns(c, row, (first, last), UNROLLED, c.deliver_to)

    def _columns(
        self, c: Code, row: Any, part: tuple[Any, Any], most: int, deliver: Callable[..., None]
    ) -> None:
        at = {name: getattr(c, name) + row * getattr(c, f"step_{name}") for name in self.whole}
        at.update({name: getattr(c, name) for name in self.fixed})
        for offset, masks in c.columns(part[1], most, part[0]):
            if len(masks) == UNROLLED and c.lanes < MASKED:
                self._ask(c, at, offset)
            results = [
                self._vector(c, at, offset + k * c.lanes * 4, mask) for k, mask in enumerate(masks)
            ]
            for k, (values, mask) in enumerate(zip(results, masks, strict=True)):
                for name, value in zip(self.outputs, values, strict=True):
                    # other outputs are histories, which are changed in place
                    write = deliver if name == self.outputs[0] else c.write
                    write(name, value, at[name], offset + k * c.lanes * 4, mask)

    def _ask(self, c: Code, at: dict[str, Any], offset: Any) -> None:
        """Prefetch the inputs of a later step, each line once."""
        for name in self.inputs:
            line = LINE * 2 if name in c.halves else LINE  # in bytes of float32 numbers
            for byte in range(0, UNROLLED * c.lanes * 4, line):
                c.ask(name, at[name], offset + (AHEAD * 4 + byte))

    def _vector(self, c: Code, at: dict[str, Any], offset: Any, mask: Any) -> Sequence[Any]:
        """The outputs of one vector. All vectors of a step are computed before any is stored."""
        inputs = [c.read(name, at[name], offset, mask) for name in [*self.inputs, *self.fixed]]
        return self._formula(c, *inputs, *(getattr(c, name) for name in self.numbers))


class Plan:
    """A stream over arrays of certain shapes and strides: its block of arguments without
    addresses. `halves`: the arrays that hold bfloat16 numbers."""

    def __init__(self, stream: Stream, rows: Rows, halves: Sequence[str]) -> None:
        self._kernel = stream.kernel.storing(halves)
        self._itemsize = 2 if stream.outputs[0] in halves else 4
        steps = {
            f"step_{name}": step for name, step in zip(stream.whole, rows.strides, strict=True)
        }
        self.block = stream.block(rows=rows.number, length=rows.length, **steps)
        self.places: Any = (ctypes.c_int64 * len([*stream.whole, *stream.fixed])).from_buffer(
            self.block
        )
        start = getattr(stream.block, stream.numbers[0]).offset if stream.numbers else 0
        self.numbers: Any = (ctypes.c_float * len(stream.numbers)).from_buffer(self.block, start)
        self.size = rows.number * rows.length * self._itemsize  # bytes of a result
        self.steps = rows.strides[:1] if rows.number > 1 else ()

    def kernel(self) -> Generated:
        """The kernel for the present addresses."""
        if self.size < LARGE:
            return self._kernel
        output, *others = self.places
        skip = -output % LINE if not self.steps else 0
        number, between = divmod(skip, self._itemsize)
        past = (
            output not in others
            and between == 0  # else no number begins at a cache line
            and goes_past(self.size, (output + skip,), self.steps)
        )
        self.block.skip = min(number, self.block.length) if past else 0
        return self._kernel.past if past else self._kernel


class Streams:
    """Runs streams on one team; remembers the layout of operands of each kind."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._plans: dict[Any, Plan | None] = {}

    def run(
        self,
        stream: Stream,
        arrays: Sequence[Array],
        numbers: Sequence[float] = (),
        axis: int | None = None,
    ) -> bool:
        """Run a stream over outputs, inputs and fixed inputs, in this order. Returns False, and
        does nothing, if they do not fit: another type, not one shape, no common rows, or not
        writeable. `axis`: the axis of the fixed inputs."""
        found = self._planned(stream, arrays, axis)
        if found is None:
            return False
        plan, addresses = found
        plan.places[:] = addresses
        plan.numbers[:] = numbers
        self._team.run(plan.kernel(), plan.block)
        return True

    def fits(self, stream: Stream, arrays: Sequence[Array], axis: int | None = None) -> bool:
        """Whether `run` would take these arrays."""
        return self._planned(stream, arrays, axis) is not None

    def _planned(
        self, stream: Stream, arrays: Sequence[Array], axis: int | None
    ) -> tuple[Plan, list[int]] | None:
        """The plan and the addresses of the arrays, or None if they do not fit."""
        try:
            known = [seen(array) for array in arrays]
        except AttributeError:  # not an array: the reference reports it
            return None
        key = stream, axis, *[one[2] for one in known]
        try:
            plan = self._plans[key]
        except KeyError:
            plan = self._plans[key] = _plan(stream, arrays, axis)
        outputs = arrays[: len(stream.outputs)]
        if plan is None or not all([output.flags.writeable for output in outputs]):  # noqa: C419
            return None
        return plan, [one[1] for one in known]


def _plan(stream: Stream, arrays: Sequence[Array], axis: int | None) -> Plan | None:
    whole = arrays[: len(stream.whole)]
    fixed = arrays[len(stream.whole) :]
    shape = whole[0].shape
    for part in fixed:
        if (
            axis is None
            or part.shape != (shape[axis],)
            or part.dtype != F32
            or not part.flags.c_contiguous
        ):
            return None
    rows = rows_of(whole, axis)
    named = halves(dict(zip(stream.whole, whole, strict=True)))
    return None if rows is None else Plan(stream, rows, named)
