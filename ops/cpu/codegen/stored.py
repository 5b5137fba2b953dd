"""Arrays stored in bfloat16: the type, and the conversions that kernels make as they read and
write.

A kernel computes in float32. It widens the numbers that it loads, which is exact, and rounds the
numbers that it stores: to nearest, halves to even. NaN stays NaN. Denormal numbers are written as
0, because VCVTNEPS2BF16 writes them so; where the processor lacks it, integer arithmetic gives the
same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from ops.cpu.codegen.bfloat16 import LANES, BFloat, has_bfloat16
from ops.cpu.codegen.ir_tools import F32, I32, VOID, Vectors, declared
from ops.cpu.codegen.kernel import conversion
from ops.errors import BFLOAT16 as BFLOAT16  # this module exports it

FLOAT32 = np.dtype(np.float32)
STORED = (FLOAT32, BFLOAT16)
I16 = ir.IntType(16)


def _like(value: ir.Value, element: ir.Type) -> ir.Type:
    """`element`, or a vector of as many as `value` has."""
    kind = value.type
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def _all(kind: ir.Type, number: int) -> ir.Constant:
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def widened(b: ir.IRBuilder, halves: ir.Value) -> ir.Value:
    """The float32 numbers of 16-bit integers whose bits are bfloat16 numbers, lane by lane."""
    whole = _like(halves, I32)
    bits = b.shl(b.zext(halves, whole), _all(whole, 16))
    return b.bitcast(bits, _like(halves, F32))


def rounded(b: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    """Float32 numbers as bfloat16, in 16-bit integers, lane by lane."""
    if getattr(numbers.type, "count", 1) == LANES and has_bfloat16():
        name = "llvm.x86.avx512bf16.cvtneps2bf16.512"
        kind = ir.VectorType(BFloat(), LANES)
        return b.bitcast(
            b.call(declared(b, name, kind, [numbers.type]), [numbers]), _like(numbers, I16)
        )
    whole = _like(numbers, I32)
    bits = b.bitcast(numbers, whole)
    high = b.lshr(bits, _all(whole, 16))
    even = b.add(_all(whole, 0x7FFF), b.and_(high, _all(whole, 1)))
    found = b.lshr(b.add(bits, even), _all(whole, 16))
    exponent = b.and_(bits, _all(whole, 0x7F800000))
    tiny = b.icmp_signed("==", exponent, _all(whole, 0))
    found = b.select(tiny, b.and_(high, _all(whole, 0x8000)), found)
    nan = b.fcmp_unordered("uno", numbers, numbers)
    found = b.select(nan, b.or_(high, _all(whole, 0x40)), found)
    return b.trunc(found, _like(numbers, I16))


class Stored:
    """How the numbers of an array lie in memory, as a kernel loads and stores them. One source of a
    kernel serves both types: it is written once with each."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.size = dtype.itemsize  # bytes of a number
        self._halves = dtype == BFLOAT16

    def __repr__(self) -> str:
        return f"<stored as {self.dtype}>"

    def load(self, v: Vectors, address: ir.Value, mask: ir.Value | None = None) -> ir.Value:
        """The float32 vector at `address`; lanes outside the mask are 0 and are not read."""
        if not self._halves:
            return v.load(address, mask)
        kind = ir.VectorType(I16, v.lanes)
        pointer = v.b.inttoptr(address, kind.as_pointer())
        if mask is None:
            return widened(v.b, v.b.load(pointer, align=2))
        load = declared(
            v.b,
            f"llvm.masked.load.v{v.lanes}i16.p0",
            kind,
            [pointer.type, I32, v.masks, kind],
        )
        return widened(v.b, v.b.call(load, [pointer, I32(2), mask, _all(kind, 0)]))

    def store(
        self, v: Vectors, value: ir.Value, address: ir.Value, mask: ir.Value | None = None
    ) -> None:
        """Write the float32 vector to `address`; lanes outside the mask are left alone."""
        if not self._halves:
            v.store(value, address, mask)
            return
        found = rounded(v.b, value)
        pointer = v.b.inttoptr(address, found.type.as_pointer())
        if mask is None:
            v.b.store(found, pointer, align=2)
            return
        store = declared(
            v.b,
            f"llvm.masked.store.v{v.lanes}i16.p0",
            VOID,
            [found.type, pointer.type, I32, v.masks],
        )
        v.b.call(store, [found, pointer, I32(2), mask])


AS_FLOAT32 = Stored(FLOAT32)
AS_BFLOAT16 = Stored(BFLOAT16)


def stored(dtype: np.dtype[Any]) -> Stored:
    """How numbers of this type lie in memory."""
    return AS_BFLOAT16 if dtype == BFLOAT16 else AS_FLOAT32


# for loops in Python: widen(uint16) -> float32 and narrow(float32) -> uint16, as above
widen = conversion("uint16", "float32", widened)
narrow = conversion("float32", "uint16", rounded)
