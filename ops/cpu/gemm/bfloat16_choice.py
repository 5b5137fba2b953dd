"""The choice of instruction for products in bfloat16, by processor: the one place that decides.

AMX's tiles are the fastest. VDPBF16PS is twice as fast as float32 on AMD's processors from Zen 4
on. On Intel's it has half of float32's rate (112 beside 217 GFLOP/s on one core, measured once,
2026-11-29), so without AMX Intel's processors multiply in float32.
"""

from __future__ import annotations

from collections.abc import Callable

from ops.cpu.codegen.amx import amx_missing
from ops.cpu.codegen.bfloat16 import bfloat16_lacking, has_bfloat16
from ops.cpu.codegen.target import host
from ops.cpu.gemm import amx_block, dot_block
from ops.cpu.gemm.amx_block import Blocks
from ops.errors import KernelsMissing


def bfloat16_missing() -> str:
    """The reason why products in bfloat16 are not faster than float32 here; empty if they are."""
    return "" if _choice() else _reason()


def best_blocks() -> Blocks:
    """The fastest blocks of this processor. Raises KernelsMissing with the reason if none is faster
    than float32."""
    if (found := _choice()) is None:
        raise KernelsMissing(f"products in bfloat16: {_reason()}; use precision 'fast'")
    return found()


def _choice() -> Callable[[], Blocks] | None:
    if not amx_missing():
        return amx_block.blocks
    if has_bfloat16() and host().cpu.startswith("znver"):
        return dot_block.blocks
    return None


def _reason() -> str:
    if lacking := bfloat16_lacking():
        return lacking
    return f"{amx_missing()}, and its AVX512_BF16 is slower than float32"
