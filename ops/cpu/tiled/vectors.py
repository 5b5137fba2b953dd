"""Vectors of bfloat16 numbers in generated kernels: rows narrowed in place order, and pairs of two
rows."""

from __future__ import annotations

from llvmlite import ir

from ops.cpu.codegen.bfloat16 import LANES, narrowed, paired
from ops.cpu.codegen.code import Code
from ops.cpu.codegen.ir_tools import I32
from ops.cpu.codegen.values import Vec, Whole

LINE = 64  # bytes of a vector
WORDS = ir.VectorType(I32, LANES)


def store_narrowed(code: Code, low: Vec, high: Vec, at: Whole) -> None:
    """Write 32 numbers, rounded to bfloat16, at an address that is a multiple of 64."""
    store_pairs(code, Vec(code.b, narrowed(code.b, low.value, high.value)), at)


def pairs(code: Code, low: Vec, high: Vec) -> Vec:
    """The pairs (low, high) of each lane, rounded to bfloat16, as int32."""
    return Vec(code.b, code.b.bitcast(paired(code.b, low.value, high.value), WORDS))


def store_pairs(code: Code, value: Vec, at: Whole) -> None:
    """Write 16 pairs at an address that is a multiple of 64."""
    kind = value.value.type
    code.b.store(value.value, code.b.inttoptr(at.value, kind.as_pointer()), align=LINE)


def store_zeros(code: Code, at: Whole) -> None:
    """Write 64 bytes of zeros at an address that is a multiple of 64."""
    code.b.store(
        ir.Constant(WORDS, [0] * LANES), code.b.inttoptr(at.value, WORDS.as_pointer()), align=LINE
    )
