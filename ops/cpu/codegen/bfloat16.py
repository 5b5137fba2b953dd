"""bfloat16 in generated kernels: numbers rounded to it, and sums of products of its pairs.

The instructions are those of AVX512_BF16. VCVTNEPS2BF16 rounds to even. VDPBF16PS adds the products
of two neighbouring numbers to each float32 sum. Both take denormal numbers as 0.
"""

from __future__ import annotations

from llvmlite import ir

from ops.cpu.codegen.ir_tools import I32, Vectors, declared
from ops.cpu.codegen.target import host, is_narrowed
from ops.cpu.codegen.width import VARIABLE
from ops.errors import KernelsMissing

FEATURE = "+avx512bf16"
LANES = 16  # float32 numbers of the only width for which there are kernels, 512 bits
I16 = ir.IntType(16)


class BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's type bfloat, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


_PAIRS = ir.VectorType(BFloat(), 2 * LANES)


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 numbers in vectors of 512 bits."""
    return FEATURE in host().features.split(",")


def bfloat16_lacking() -> str:
    """The reason why kernels here have no AVX512_BF16; empty if they have."""
    if has_bfloat16():
        return ""
    if is_narrowed():
        return (
            f"the environment variable {VARIABLE} narrows vectors to {host().bits} bits, and "
            "AVX512_BF16 needs 512"
        )
    return (
        f"this processor ({host().cpu}, vectors of {host().bits} bits) lacks AVX512_BF16, "
        "which AMD's Zen 4 and Intel's Sapphire Rapids have"
    )


def check_bfloat16() -> None:
    """Check that the processor has AVX512_BF16. Raises KernelsMissing with the reason."""
    if reason := bfloat16_lacking():
        raise KernelsMissing(f"products in bfloat16: {reason}; use precision 'fast'")


class Pairs(Vectors):
    """Vectors whose products are those of bfloat16: each 4 bytes of a factor are a pair."""

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """z + x[odd] * y[odd] + x[even] * y[even] for the two numbers in each lane of x and y,
        rounded after each sum."""
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        dot = declared(self.b, name, self.type, [self.type, _PAIRS, _PAIRS])
        return self.b.call(dot, [z, self.b.bitcast(x, _PAIRS), self.b.bitcast(y, _PAIRS)])


def narrowed(b: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Round two vectors of float32 to bfloat16, to even. Returns their numbers one after the other,
    as 16-bit integers."""
    name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
    narrow = declared(b, name, _PAIRS, [first.type, second.type])
    return b.bitcast(b.call(narrow, [second, first]), ir.VectorType(I16, 2 * LANES))


def paired(b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> ir.Value:
    """The pairs (low[v], high[v]) of two vectors of float32, rounded. Returns 16-bit integers."""
    both = narrowed(b, low, high)
    order = [lane + half for lane in range(LANES) for half in (0, LANES)]
    return b.shuffle_vector(both, both, ir.Constant(ir.VectorType(I32, 2 * LANES), order))
