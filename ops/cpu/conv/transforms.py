"""Straight-line transforms of small patches, P D PT, and the transposition of a square of numbers,
as LLVM IR.

A patch is a square of pixels, each a vector of channels; the code loops over images and over
vectors of channels, with the last vector masked. Two forms for each matrix P of Winograd's method:

- `spread`: from a patch of an image to planes of a buffer (inputs, weights, gradients of outputs).
  Pixels outside the given rows and columns are read from a row of zeros, which is how padding comes
  in.
- `collapse`: from planes to a patch (outputs, gradients of weights), plus initial values, not below
  a floor. Pixels outside go to a sink.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import F32, I64, Vectors, counted, function
from ops.cpu.codegen.kernel import calling
from ops.cpu.codegen.target import host
from ops.cpu.conv.toom_cook import MODES, mirrored
from ops.cpu.team.workspace import LINE
from ops.errors import Array

SPREAD = [
    "source",
    "sn",
    "sh",
    "sw",
    "top",
    "bottom",
    "left",
    "right",
    "zero",
    "target",
    "sT",
    "sV",
    "sX",
    "images",
    "channels",
]
COLLAPSE = [
    "source",
    "sX",
    "sT",
    "sV",
    "initial",
    "sIn",
    "sIh",
    "sIw",
    "target",
    "sn",
    "sh",
    "sw",
    "bottom",
    "right",
    "sink",
    "images",
    "channels",
]
TRANSPOSE = ["source", "sS", "target", "sT", "rows", "columns"]


class Transforms(NamedTuple):
    """Addresses of the transforms of one mode; dU is the gradient of the transformed weights."""

    image: int  # V = BT D B
    weight: int  # U = G W GT
    result: int  # Y = AT M A
    adjoint: int  # A dY AT
    gradient: int  # dW = GT dU G
    transpose: int


@functools.cache
def transforms(mode: str) -> Transforms:
    """The transforms of `MODES[mode]`, compiled or loaded on first use."""
    BT, G, AT = MODES[mode].matrices()
    forms = (
        (build_spread, BT),
        (build_spread, G),
        (build_collapse, AT),
        (build_spread, AT.T),
        (build_collapse, G.T),
    )

    def build(module: ir.Module) -> None:
        for (form, P), name in zip(forms, Transforms._fields, strict=False):
            form(module, name, P, host().lanes)

    at = addresses("winograd-" + "".join(letter for letter in mode if letter.isalnum()), build)
    other = addresses(
        "transpose", lambda module: build_transpose(module, "transpose", host().lanes)
    )
    return Transforms._make([*map(at, Transforms._fields[:-1]), other("transpose")])


def product(v: Vectors, P: Array, x: Sequence[ir.Value]) -> list[ir.Value]:
    """P x. Rows (else columns) that are mirror images, as those of the points p and -p are, share
    their work."""
    if pairs := mirrored(P):
        return _rows_in_pairs(v, P, x, pairs)
    Q = P.copy()
    terms = list(x)
    for one, other in mirrored(P.T):
        terms[one], terms[other] = v.b.fadd(x[one], x[other]), v.b.fsub(x[one], x[other])
        Q[:, one], Q[:, other] = (P[:, one] + P[:, other]) / 2, (P[:, one] - P[:, other]) / 2
    return [_dot(v, row, terms) for row in Q]


def _rows_in_pairs(
    v: Vectors, P: Array, x: Sequence[ir.Value], pairs: list[tuple[int, int]]
) -> list[ir.Value]:
    found: dict[int, ir.Value] = {}
    for one, other in pairs:
        even = (P[one] + P[other]) / 2
        odd = (P[one] - P[other]) / 2
        scale = _unit(odd)
        half = _dot(v, even, x)
        rest = _dot(v, odd / scale, x)
        found[one], found[other] = _added(v, scale, rest, half), _added(v, -scale, rest, half)
    return [found[row] if row in found else _dot(v, P[row], x) for row in range(len(P))]


def _unit(row: Array) -> float:
    """The number to divide a row by: the one that leaves most others exact in binary."""
    numbers = [float(number) for number in row if number]
    return min(numbers, key=lambda unit: sum((other / unit * 1024) % 1 != 0 for other in numbers))


def _dot(v: Vectors, row: Array, x: Sequence[ir.Value]) -> ir.Value:
    terms = sorted(
        ((float(number), value) for number, value in zip(row, x, strict=True) if number),
        key=_ones_first,
    )
    number, value = terms[0]
    total = value if number == 1 else v.b.fmul(v.constant(number), value)
    for number, value in terms[1:]:
        total = _added(v, number, value, total)
    return total


def _ones_first(term: tuple[float, ir.Value]) -> int:
    return {1.0: 0, -1.0: 2}.get(term[0], 1)


def _added(v: Vectors, number: float, value: ir.Value, total: ir.Value) -> ir.Value:
    """total + number * value"""
    if abs(number) == 1:
        return v.b.fadd(total, value) if number > 0 else v.b.fsub(total, value)
    return v.fma(v.constant(number), value, total)


def _both_sides(v: Vectors, P: Array, patch: list[list[ir.Value]]) -> list[list[ir.Value]]:
    """P D PT for D as rows of values."""
    columns = [product(v, P, [row[j] for row in patch]) for j in range(P.shape[1])]
    return [product(v, P, [column[i] for column in columns]) for i in range(len(P))]


def _pixels(
    b: ir.IRBuilder, size: int, strides: Sequence[ir.Value], inside: Callable[..., Any]
) -> list[Any]:
    """(offset, whether it is inside) of every pixel of a patch."""
    places = [(I64(i), I64(j)) for i in range(size) for j in range(size)]
    return [(b.add(b.mul(strides[0], i), b.mul(strides[1], j)), inside(i, j)) for i, j in places]


def _function(
    module: ir.Module, name: str, labels: Sequence[tuple[str, ir.Type]]
) -> tuple[ir.IRBuilder, Any]:
    """A function whose stack begins on a whole line, so that the vectors LLVM spills do not cross
    lines: 1.6x."""
    b, a = function(module, name, labels)
    # llvmlite forgets the alignment of a function without attributes
    b.function.attributes.add("nounwind")
    b.function.attributes.alignstack = LINE
    return b, a


def build_spread(module: ir.Module, name: str, P: Array, lanes: int) -> None:
    """target[plane][image][vector] = (P D PT)[plane]. D is read only where top <= i < bottom and
    left <= j < right; elsewhere it counts as 0."""
    b, a = _function(module, name, [(label, I64) for label in SPREAD])
    v = Vectors(b, lanes)
    size = P.shape[1]

    def inside(i: ir.Value, j: ir.Value) -> ir.Value:
        below = b.and_(b.icmp_signed(">=", i, a["top"]), b.icmp_signed("<", i, a["bottom"]))
        return b.and_(
            below, b.and_(b.icmp_signed(">=", j, a["left"]), b.icmp_signed("<", j, a["right"]))
        )

    pixels = _pixels(b, size, (a["sh"], a["sw"]), inside)
    planes = [b.mul(a["sX"], I64(plane)) for plane in range(len(P) ** 2)]
    table = b.alloca(I64, size=size * size)

    def image(n: ir.Value) -> None:
        source = b.add(a["source"], b.mul(n, a["sn"]))
        for at, (offset, counts) in enumerate(pixels):
            b.store(b.select(counts, b.add(source, offset), a["zero"]), b.gep(table, [I64(at)]))
        counted(b, a["channels"], lanes, lambda c: vector(n, c))

    def vector(n: ir.Value, c: ir.Value) -> None:
        mask = v.mask(b.sub(a["channels"], c))
        offset = b.mul(c, I64(4))
        read = [
            v.load(b.add(b.load(b.gep(table, [I64(at)])), offset), mask)
            for at in range(size * size)
        ]
        made = _both_sides(v, P, [read[row * size : (row + 1) * size] for row in range(size)])
        target = b.add(b.add(a["target"], b.mul(n, a["sT"])), b.mul(b.sdiv(c, I64(lanes)), a["sV"]))
        for plane, value in zip(planes, (value for row in made for value in row), strict=True):
            v.store(value, b.add(target, plane))

    counted(b, a["images"], 1, image)
    b.ret_void()


def build_collapse(module: ir.Module, name: str, P: Array, lanes: int) -> None:
    """target pixel (i, j) = max((P M PT)[i, j] + initial (i, j), floor), i < bottom, j < right;
    M[plane][image]."""
    b, a = _function(module, name, [*((label, I64) for label in COLLAPSE), ("floor", F32)])
    v = Vectors(b, lanes)
    size = len(P)
    side = P.shape[1]

    def inside(i: ir.Value, j: ir.Value) -> ir.Value:
        return b.and_(b.icmp_signed("<", i, a["bottom"]), b.icmp_signed("<", j, a["right"]))

    pixels = _pixels(b, size, (a["sh"], a["sw"]), inside)
    firsts = [offset for offset, _ in _pixels(b, size, (a["sIh"], a["sIw"]), lambda *_: None)]
    planes = [b.mul(a["sX"], I64(plane)) for plane in range(side * side)]
    floor = v.splat(a["floor"])
    table = b.alloca(I64, size=size * size)

    def image(n: ir.Value) -> None:
        target = b.add(a["target"], b.mul(n, a["sn"]))
        for at, (offset, counts) in enumerate(pixels):
            b.store(b.select(counts, b.add(target, offset), a["sink"]), b.gep(table, [I64(at)]))
        counted(b, a["channels"], lanes, lambda c: vector(n, c))

    def vector(n: ir.Value, c: ir.Value) -> None:
        mask = v.mask(b.sub(a["channels"], c))
        offset = b.mul(c, I64(4))
        source = b.add(b.add(a["source"], b.mul(n, a["sT"])), b.mul(b.sdiv(c, I64(lanes)), a["sV"]))
        read = [v.load(b.add(source, plane)) for plane in planes]
        made = _both_sides(v, P, [read[row * side : (row + 1) * side] for row in range(side)])
        initial = b.add(b.add(a["initial"], b.mul(n, a["sIn"])), offset)
        for at, value in enumerate(value for row in made for value in row):
            total = b.fadd(value, v.load(b.add(initial, firsts[at]), mask))
            v.store(v.at_least(total, floor), b.add(b.load(b.gep(table, [I64(at)])), offset), mask)

    counted(b, a["images"], 1, image)
    b.ret_void()


def build_transpose(module: ir.Module, name: str, lanes: int) -> None:
    """target[j][i] = source[i][j] for i < rows, j < columns, both from 1 to `lanes`; nothing else
    is touched."""
    b, a = function(module, name, [(label, I64) for label in TRANSPOSE])
    v = Vectors(b, lanes)
    wide = v.mask(a["columns"])
    high = v.mask(a["rows"])
    rows = []
    for row in range(lanes):  # rows beyond the last are the first again: read, never stored
        offset = b.select(b.icmp_signed("<", I64(row), a["rows"]), b.mul(a["sS"], I64(row)), I64(0))
        rows.append(v.load(b.add(a["source"], offset), wide))
    step = lanes // 2
    while step:
        rows = _exchanged(b, rows, step)
        step //= 2
    # rows beyond the last go where the first is stored after them
    for row in reversed(range(lanes)):
        offset = b.select(
            b.icmp_signed("<", I64(row), a["columns"]), b.mul(a["sT"], I64(row)), I64(0)
        )
        v.store(rows[row], b.add(a["target"], offset), high)
    b.ret_void()


def _exchanged(b: ir.IRBuilder, rows: list[ir.Value], step: int) -> list[ir.Value]:
    """Exchange squares of `step` x `step` across the diagonal of squares twice as large."""
    lanes = len(rows)
    found = list(rows)
    index = np.arange(lanes)
    low = np.where(index & step, index - step + lanes, index)
    high = np.where(index & step, index + lanes, index + step)
    for row in range(lanes):
        if not row & step:
            for at, picks in ((row, low), (row + step, high)):
                mask = ir.Constant(
                    ir.VectorType(ir.IntType(32), lanes), [int(pick) for pick in picks]
                )
                found[at] = b.shuffle_vector(rows[row], rows[row + step], mask)
    return found


call_spread = calling([(label, I64) for label in SPREAD])
call_collapse = calling([*((label, I64) for label in COLLAPSE), ("floor", F32)])
call_transpose = calling([(label, I64) for label in TRANSPOSE])
