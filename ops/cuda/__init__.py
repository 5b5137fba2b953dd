"""CUDA C sources of the CuPy backend, one list of kernels per family: lowering, lrn, pooling, rows. Text only, no CuPy.

Every kernel is extern "C" and runs one thread per element of its result over a grid of any size. It needs no shared
memory and no atomics, and sums in a fixed order, so a repeated run gives the same bits. `T` is float or double. Images
are (N, C, H, W) with whole planes contiguous: `n` and `c` behind an array's name are its strides in elements.
"""

from __future__ import annotations

from ops.cuda.lowering import LOWERING
from ops.cuda.lrn import LRN
from ops.cuda.pooling import POOLING
from ops.cuda.rows import ROWS

__all__ = ["KERNELS", "source"]

KERNELS: dict[str, str] = {**LOWERING, **POOLING, **LRN, **ROWS}

PRELUDE = """
typedef {type} T;
#define EACH(i, count) \\
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += gridDim.x * blockDim.x)
__device__ inline int least(int a, int b) {{ return a < b ? a : b; }}
__device__ inline int most(int a, int b) {{ return a > b ? a : b; }}
"""


def source(dtype: str) -> str:
    """One translation unit with every kernel, for "float32" or "float64"."""
    prelude = PRELUDE.format(type={"float32": "float", "float64": "double"}[dtype])
    return prelude + "".join(f'extern "C" __global__ void {name}{body}\n' for name, body in KERNELS.items())
