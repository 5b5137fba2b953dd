"""A hint that asks for a cache line before it is needed."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ops.cpu.codegen.ir_tools import I64, fetch
from ops.cpu.codegen.kernel import instruction


def _emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
    fetch(builder, args[0], to_write=False)


# fetches the line at an address into the L2 cache; the address need not be readable
prefetch = instruction([I64], _emit)
