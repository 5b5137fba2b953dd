"""Asking for a cache line before it is needed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ops.cpu.codegen.ir_tools import I32, VOID, declared

READ, INTO_L2, DATA = I32(0), I32(2), I32(1)


@intrinsic
def prefetch(tc, address):  # type: ignore[no-untyped-def]
    """Fetch the line at `address`, which need not be readable, into the L2 cache."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        name = declared(builder, "llvm.prefetch.p0", VOID, [pointer.type, I32, I32, I32])
        builder.call(name, [pointer, READ, INTO_L2, DATA])
        return context.get_dummy_value()

    return types.void(types.int64), generate
