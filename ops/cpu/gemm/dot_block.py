"""The block of a product that VDPBF16PS computes: the interface of `amx_block`, for processors
without AMX.

    C[r, c] = max(I[r, c] + sum_k A[r, k] B[k, c], floor)      r < rows <= 32, c < columns <= 48

Operands lie as `amx_block` says, and `padded` makes no difference. If k is odd, A has one more
number in each row, which is finite.
"""

from __future__ import annotations

import functools

from llvmlite import ir

from ops.cpu.codegen.bfloat16 import LANES, check_bfloat16
from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.ir_tools import I64, counted, function
from ops.cpu.gemm.amx_block import ARGUMENTS, Arguments, Blocks
from ops.cpu.gemm.microkernel import USUAL, shapes
from ops.cpu.gemm.tile import build_tile

ROWS = 32
VECTORS = USUAL


@functools.cache
def blocks() -> Blocks:
    """The functions, compiled or loaded on first use. Raises KernelsMissing if the processor lacks
    AVX512_BF16."""
    check_bfloat16()
    at = addresses("dot_block", build)
    return Blocks(at("nothing"), at("block"), at("nothing"), ROWS, VECTORS)


def build(module: ir.Module) -> None:
    """Add the block, its tiles, and a function that does nothing, for its beginning and end."""
    b, _ = function(module, "nothing", ())
    b.ret_void()
    most = {vectors: rows for vectors, rows in shapes().items() if vectors <= VECTORS}
    for vectors, rows in most.items():
        for count in range(1, rows + 1):
            name = f"tile_{count}x{vectors}"
            build_tile(module, name, count, vectors, LANES, pairs=True)
            module.globals[name].linkage = "internal"
    b, a = function(module, "block", ARGUMENTS)
    for vectors, rows in most.items():
        low = b.icmp_signed(">", a["columns"], I64((vectors - 1) * LANES))
        high = b.icmp_signed("<=", a["columns"], I64(vectors * LANES))
        with b.if_then(b.and_(low, high)):
            _rows(b, a, rows, vectors)
    b.ret_void()


def _rows(b: ir.IRBuilder, a: Arguments, rows: int, vectors: int) -> None:
    """Call a tile for every `rows` rows of the block, and one for the rows that are left."""
    whole = b.mul(b.udiv(a["rows"], I64(rows)), I64(rows))
    counted(b, whole, rows, lambda row: _tile(b, a, row, rows, vectors))
    choice = b.switch(b.sub(a["rows"], whole), b.append_basic_block("done"))
    for count in range(1, rows):
        case = b.append_basic_block(f"rest_{count}x{vectors}")
        choice.add_case(I64(count), case)
        b.position_at_end(case)
        _tile(b, a, whole, count, vectors)
        b.branch(choice.default)
    b.position_at_end(choice.default)


def _tile(b: ir.IRBuilder, a: Arguments, row: ir.Value, rows: int, vectors: int) -> None:
    """Call the tile of so many rows and vectors at a row of the block."""
    places = {
        operand: b.add(a[operand], b.mul(a[f"s{operand}"], row)) for operand in ("A", "C", "I")
    }
    pairs = b.lshr(b.add(a["k"], I64(1)), I64(1))
    none = b.icmp_signed("==", a["I"], I64(0))
    tile = b.module.globals[f"tile_{rows}x{vectors}"]
    start = b.select(none, I64(0), places["I"])
    arguments = (
        places["A"], a["sA"], I64(4), I64(0), a["B"], a["sB"], I64(0), places["C"], a["sC"],
        start, a["sI"], pairs, I64(1), a["columns"], a["floor"],
    )  # fmt: skip
    b.call(tile, arguments)
