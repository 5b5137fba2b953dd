"""Local response normalisation across channels, forward and backward, one pass over memory each.

A few pixels at a time go through two steps. The first writes squares (backward: dy y / s) into
scratch rows with zeros on either side, the second sums windows of them. 1 / s^0.75 is r r sqrt(1 /
r) for r = 1 / sqrt(s): no division and no power. The reference computes LRN within a channel.
"""

from __future__ import annotations

from typing import Any

from ops.cpu.codegen.code import Code, Generated, generated
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.target import host
from ops.cpu.codegen.values import Vec, Whole
from ops.cpu.team.fast import Fast
from ops.cpu.team.operands import F32, Rows, address, as_rows, goes_past
from ops.errors import Array
from ops.reference.lrn import share_and_shift

PIXELS = 8  # pixels that go through both steps together
LRN = layout(
    ("x x_row s s_row y y_row dy dy_row out out_row rows channels extent scratch margin line"),
    "gain shift beta",
)
USUAL = 0.75


def _inverse_root(c: Code, s: Vec) -> Vec:
    """1 / sqrt(s), to the last bit or two: where the processor has a first guess, one step of
    Newton's method."""
    if c.lanes != 16:
        return c.constant(1) / c.apply("sqrt", s)
    guess = c.rough_inverse_root(s)
    return guess * (c.constant(1.5) - s * 0.5 * guess * guess)


def _powers(c: Code, s: Vec, usual: bool) -> tuple[Vec, Vec]:
    """s^-beta and 1 / s."""
    if not usual:
        return c.constant(1) / c.apply("pow", s, c.beta), c.constant(1) / s
    root = _inverse_root(c, s)
    inverse = root * root
    return inverse * _inverse_root(c, root), inverse


def _pixels(c: Code, lines: int) -> Any:
    """Yield this thread's scratch lines, which are zeroed at the start, and (first row, number of
    rows) of each turn."""
    scratch = c.scratch + c.number * c.line * (PIXELS * lines)
    for at, _ in c.columns(c.line // 4 * (PIXELS * lines), 1):
        c.store(c.constant(0), scratch + at)
    first, last = c.share(c.rows)
    for row in c.loop(first, last, PIXELS):
        yield scratch, row, last.least(row + PIXELS) - row


def _window(c: Code, line: Whole, at: Whole) -> Vec:
    """The sum of `size` numbers around each lane."""
    total = c.variable(c.constant(0))
    start = line + at + c.margin - c.extent // 2 * 4
    for step in c.loop(0, c.extent):
        total.set(total.get() + c.load(start + step * 4))
    found: Vec = total.get()
    return found


def _forward(c: Code, usual: bool) -> None:
    for scratch, row, count in _pixels(c, 1):
        for k in c.loop(0, count):
            for at, masks in c.columns(c.channels, 1):
                x = c.load(c.x + (row + k) * c.x_row + at, masks[0])
                c.store(x * x, scratch + k * c.line + c.margin + at)
        for k in c.loop(0, count):
            for at, masks in c.columns(c.channels, 1):
                s = c.shift + c.gain * _window(c, scratch + k * c.line, at)
                power, _ = _powers(c, s, usual)
                x = c.load(c.x + (row + k) * c.x_row + at, masks[0])
                c.deliver(s, c.s + (row + k) * c.s_row + at, masks[0])
                c.deliver(x * power, c.out + (row + k) * c.out_row + at, masks[0])


def _backward(c: Code, usual: bool) -> None:
    """`gain` is 2 beta share here."""
    for scratch, row, count in _pixels(c, 2):
        for k in c.loop(0, count):
            ratios = scratch + k * c.line
            direct = scratch + (k + PIXELS) * c.line
            for at, masks in c.columns(c.channels, 1):
                dy, y, s = (
                    c.load(base + (row + k) * step + at, masks[0])
                    for base, step in ((c.dy, c.dy_row), (c.y, c.y_row), (c.s, c.s_row))
                )
                power, inverse = _powers(c, s, usual)
                c.store(
                    dy * y * inverse, ratios + c.margin + at, masks[0]
                )  # not beyond the channels, where s is 0
                c.store(dy * power, direct + at)
        for k in c.loop(0, count):
            for at, masks in c.columns(c.channels, 1):
                x = c.load(c.x + (row + k) * c.x_row + at, masks[0])
                around = _window(c, scratch + k * c.line, at)
                dx = c.load(scratch + (k + PIXELS) * c.line + at) - x * c.gain * around
                c.deliver(dx, c.out + (row + k) * c.out_row + at, masks[0])


@generated(LRN)
def lrn_forward(c: Code) -> None:
    """beta 0.75."""
    _forward(c, True)


@generated(LRN)
def lrn_forward_any(c: Code) -> None:
    """Any beta."""
    _forward(c, False)


@generated(LRN)
def lrn_backward(c: Code) -> None:
    """beta 0.75."""
    _backward(c, True)


@generated(LRN)
def lrn_backward_any(c: Code) -> None:
    """Any beta."""
    _backward(c, False)


class Plan:
    """A block of arguments for arrays of one shape and one set of strides."""

    def __init__(
        self, names: tuple[str, ...], rows: Rows, size: int, threads: int, lines: int
    ) -> None:
        lanes = host().lanes
        margin = size // 2 + -(size // 2) % lanes
        line = (rows.length + -rows.length % lanes + 2 * margin) * 4
        self.bytes = threads * PIXELS * lines * line
        self.names = names
        self.block = LRN(
            rows=rows.number, channels=rows.length, extent=size, margin=margin * 4, line=line
        )
        for name, step in zip(names, rows.strides, strict=True):
            setattr(self.block, f"{name}_row", step)


class ResponseNormalisation(Fast):
    """LRN across the channels of pixels."""

    _lrn_plans: dict[Any, Plan | None] | None = None

    def lrn_forward(
        self, x: Array, *, size: int = 5, alpha: float = 1.0, beta: float = 0.75, k: float = 1.0,
        region: str = "ACROSS_CHANNELS", out: Array | None = None, scale: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Fast across channels."""
        if region == "ACROSS_CHANNELS":
            share, shift = share_and_shift("lrn_forward", size, alpha, k, region)
            y = self.like(x, out)
            s = self.like(x, scale)
            kernel = lrn_forward if beta == USUAL else lrn_forward_any
            if self._lrn(kernel, {"x": x, "out": y, "s": s}, 2, size, (share, shift, beta)):
                return y, s
        return super().lrn_forward(
            x, size=size, alpha=alpha, beta=beta, k=k, region=region, out=out, scale=scale
        )

    def lrn_backward(
        self,
        dy: Array,
        x: Array,
        y: Array,
        scale: Array,
        *,
        size: int = 5,
        alpha: float = 1.0,
        beta: float = 0.75,
        region: str = "ACROSS_CHANNELS",
        out: Array | None = None,
    ) -> Array:
        """Fast across channels."""
        if region == "ACROSS_CHANNELS":
            share, _ = share_and_shift("lrn_backward", size, alpha, 1.0, region)
            dx = self.like(dy, out)
            kernel = lrn_backward if beta == USUAL else lrn_backward_any
            operands = {"out": dx, "dy": dy, "x": x, "y": y, "s": scale}
            if self._lrn(kernel, operands, 1, size, (2 * float(beta) * share, 0.0, beta)):
                return dx
        return super().lrn_backward(
            dy, x, y, scale, size=size, alpha=alpha, beta=beta, region=region, out=out
        )

    def _lrn(
        self,
        kernel: Generated,
        operands: dict[str, Array],
        written: int,
        size: int,
        numbers: tuple[float, ...],
    ) -> bool:
        """Run the kernel. Returns False if the operands have no common rows of channels."""
        if self._lrn_plans is None:
            self._lrn_plans = {}
        arrays = tuple(operands.values())
        key = kernel.name, size, *[(a.shape, a.strides, a.dtype) for a in arrays]
        try:
            plan = self._lrn_plans[key]
        except KeyError:
            plan = self._lrn_plans[key] = _plan(operands, size, self.team.size)
        outputs = [operands[name] for name in ("out", "s")[:written]]
        if plan is None or not all(a.flags.writeable for a in outputs):
            return False
        block = plan.block
        for name, array in operands.items():
            setattr(block, name, address(array))
        block.gain, block.shift, block.beta = numbers
        block.scratch = self.workspace.take(plan.bytes)
        steps = [getattr(block, f"{name}_row") for name in ("out", "s")[:written]]
        apart = not any(
            address(operands["out"]) == address(a) for name, a in operands.items() if name != "out"
        )
        past = apart and goes_past(
            sum(a.nbytes for a in outputs), [address(a) for a in outputs], steps
        )
        self.team.run(kernel.past if past else kernel, block)
        return True


def _plan(operands: dict[str, Array], size: int, threads: int) -> Plan | None:
    arrays = list(operands.values())
    shape = arrays[0].shape
    if len(shape) != 4 or 0 in shape or any(a.shape != shape or a.dtype != F32 for a in arrays):
        return None
    rows = as_rows(shape, [4] * len(arrays), [a.strides for a in arrays], 1)
    return (
        None
        if rows is None
        else Plan(tuple(operands), rows, size, threads, 1 if len(arrays) == 3 else 2)
    )
