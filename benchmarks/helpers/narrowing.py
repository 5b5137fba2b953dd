"""Vectors of a benchmark narrowed below those of the processor, in Convoy's kernels and in the
libraries of its peers alike.

A comparison of narrowed kernels with a peer that keeps all its vectors says nothing about a
processor of that width. Libraries read these variables once, so a narrowed side needs a process of
its own.
"""

from __future__ import annotations

from typing import Any

KERNELS = "CONVOY_VECTOR_BITS"
# PyTorch's own loops, oneDNN, MKL, the C++ compiler of torch.compile, and OpenBLAS below NumPy.
# Instructions for bfloat16 and tiles need AVX-512, so they go with it.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",
    "OPENBLAS_CORETYPE": "Haswell",
}
# PyTorch's kernels of last resort use SSE only
SSE = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "TORCHINDUCTOR_CPP_MARCH": "x86-64-v2",
    "OPENBLAS_CORETYPE": "Nehalem",
}
LIBRARIES = {512: {}, 256: AVX2, 128: SSE}


def narrowing(bits: int) -> dict[str, str]:
    """The variables of a process whose kernels and libraries use vectors of `bits` bits (512, 256
    or 128) at most. They never widen what the processor has."""
    return {KERNELS: str(bits), **LIBRARIES[bits]}


def narrowed(found: dict[str, Any], bits: int) -> dict[str, Any]:
    """The facts `found` of this machine for results with vectors of `bits` bits at most. The facts
    of a machine whose vectors are no wider stay. Otherwise they say that it was narrowed, and its
    results get files of their own."""
    own = int(found["vectors"].split()[0])
    return found if own <= bits else found | {"vectors": f"narrowed to {bits} bits"}
