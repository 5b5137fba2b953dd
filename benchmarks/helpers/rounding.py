"""Whether a benchmark of bfloat16 can run on this processor."""

from __future__ import annotations

from ops import lacking

BFLOAT16 = "bf16"
NEEDED_BITS = 512  # of a vector, with which the instructions come


def no_bfloat16(bits: int | None = None) -> str:
    """The line for the user if this processor has no fast products in bfloat16, or if `bits`, the
    width of vectors that the user chose, excludes them; empty otherwise."""
    if bits and bits < NEEDED_BITS:
        why: str | None = f"--vector-bits {bits} excludes AVX-512, and bfloat16 needs it"
    else:
        why = lacking("cpu", BFLOAT16)
    return f"not measured: products in bfloat16: {why}" if why else ""
