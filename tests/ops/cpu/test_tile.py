"""The micro-kernel's machine code. The tests of products, which call it, check its numbers."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from ops.cpu.codegen.bfloat16 import has_bfloat16
from ops.cpu.codegen.compiled import machine, optimised
from ops.cpu.codegen.target import host
from ops.cpu.gemm.microkernel import shapes, tidy
from ops.cpu.gemm.tile import build_tile

ON_THE_STACK = re.compile(r"\(%rsp\), %[xyz]mm|%[xyz]mm\d+, -?\d*\(%rsp\)")


@pytest.mark.parametrize("dense", ["", "B", "AB"])
@pytest.mark.parametrize(("vectors", "rows"), shapes(long=True).items())
def test_the_loop_that_sums_products_spills_no_vector_to_the_stack(
    vectors: int, rows: int, dense: str
) -> None:
    def build(module: ir.Module) -> None:
        build_tile(module, "tile", rows, vectors, host().lanes, ahead=True, dense=dense)

    listing = machine().emit_assembly(optimised(build, tidy=tidy(dense)))
    loops = [
        block for block in re.split(r"^\S+:", listing, flags=re.MULTILINE) if "vfmadd" in block
    ]
    if host().registers < 32:  # fewer registers do not hold 4 x 3 sums, a row and a mask of lanes
        loops = [block for block in loops if "vmaskmov" not in block]
    if not loops:
        pytest.skip("this machine's products have other names")
    assert [ON_THE_STACK.findall(block) for block in loops] == [[]] * len(loops)


@pytest.mark.skipif(not has_bfloat16(), reason="needs AVX512_BF16")
@pytest.mark.parametrize(("vectors", "rows"), shapes().items())
def test_the_loop_that_sums_products_of_pairs_spills_no_vector_to_the_stack(
    vectors: int, rows: int
) -> None:
    def build(module: ir.Module) -> None:
        build_tile(module, "tile", rows, vectors, host().lanes, pairs=True)

    listing = machine().emit_assembly(optimised(build, tidy=tidy("")))
    blocks = re.split(r"^\S+:", listing, flags=re.MULTILINE)
    loops = [block for block in blocks if "vdpbf16ps" in block]
    assert [ON_THE_STACK.findall(block) for block in loops] == [[]]
