"""Kernels between float32 and the formats of two bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from llvmlite import ir

from ops.cpu.codegen.code import Code, Mask, generated
from ops.cpu.codegen.ir_tools import I32, VOID, declared
from ops.cpu.codegen.kernel import layout
from ops.cpu.codegen.target import host
from ops.cpu.codegen.values import Vec, Whole

GRAIN = 64  # threads share numbers in units of this many
UNROLLED = 4  # vectors at a time
I16 = ir.IntType(16)
HALF = ir.HalfType()

HALVES = layout("x y count")


@functools.cache
def has_float16() -> bool:
    """Whether the processor converts float16 itself. Otherwise a kernel would call a function that
    does not exist."""
    return bool({"+f16c", "+avx512f", "+neon"} & set(host().features.split(",")))


@generated(HALVES)
def to_bfloat16(c: Code) -> None:
    """y = the upper halves of x, rounded to even; a NaN keeps its upper half and is quiet."""
    for at, mask in _vectors(c):
        x = c.load(c.x + at, mask)
        bits = c.b.bitcast(x.value, _ints(c))
        upper = c.b.lshr(bits, _all(c, 16))
        ties = c.b.add(_all(c, 0x7FFF), c.b.and_(upper, _all(c, 1)))
        rounded = c.b.lshr(c.b.add(bits, ties), _all(c, 16))
        found = c.b.select(x.is_nan().value, c.b.or_(upper, _all(c, 0x40)), rounded)
        _store(c, c.b.trunc(found, ir.VectorType(I16, c.lanes)), c.y + at // 2, mask)


@generated(HALVES)
def from_bfloat16(c: Code) -> None:
    """y = x with lower halves of 0."""
    for at, mask in _vectors(c):
        bits = c.b.shl(c.b.zext(_load(c, c.x + at // 2, mask), _ints(c)), _all(c, 16))
        c.store(Vec(c.b, bits), c.y + at, mask)


@generated(HALVES)
def to_float16(c: Code) -> None:
    """y = x rounded to even."""
    for at, mask in _vectors(c):
        narrow = c.b.fptrunc(c.load(c.x + at, mask).value, ir.VectorType(HALF, c.lanes))
        _store(c, c.b.bitcast(narrow, ir.VectorType(I16, c.lanes)), c.y + at // 2, mask)


@generated(HALVES)
def from_float16(c: Code) -> None:
    """y = x."""
    for at, mask in _vectors(c):
        narrow = c.b.bitcast(_load(c, c.x + at // 2, mask), ir.VectorType(HALF, c.lanes))
        c.store(Vec(c.b, c.b.fpext(narrow, c.v.type)), c.y + at, mask)


def _vectors(c: Code) -> Iterator[tuple[Whole, Mask]]:
    """This thread's vectors: (offset in bytes of float32, mask)."""
    first, last = c.share(c.count, GRAIN)
    for offset, masks in c.columns(last, UNROLLED, first):
        for k, mask in enumerate(masks):
            yield offset + k * c.lanes * 4, mask


def _ints(c: Code) -> ir.Type:
    return ir.VectorType(I32, c.lanes)


def _all(c: Code, number: int) -> ir.Constant:
    return ir.Constant(_ints(c), [number] * c.lanes)


def _load(c: Code, at: Whole, mask: Mask) -> ir.Value:
    """Read a vector of 16-bit integers."""
    kind = ir.VectorType(I16, c.lanes)
    pointer = c.b.inttoptr(at.value, kind.as_pointer())
    if mask is None:
        return c.b.load(pointer, align=2)
    load = declared(
        c.b, f"llvm.masked.load.v{c.lanes}i16.p0", kind, [pointer.type, I32, c.v.masks, kind]
    )
    return c.b.call(load, [pointer, I32(2), mask, ir.Constant(kind, [0] * c.lanes)])


def _store(c: Code, value: ir.Value, at: Whole, mask: Mask) -> None:
    kind = value.type
    pointer = c.b.inttoptr(at.value, kind.as_pointer())
    if mask is None:
        c.b.store(value, pointer, align=2)
        return
    store = declared(
        c.b, f"llvm.masked.store.v{c.lanes}i16.p0", VOID, [kind, pointer.type, I32, c.v.masks]
    )
    c.b.call(store, [value, pointer, I32(2), mask])
