"""CUDA C sources of the CuPy backend, one family per file. They are text and need no CuPy.

source_text  The text that all kernels share
lowering     Kernels of lowering and lifting
folding      Kernels that fold blocks of pixels into channels (space to depth), and the weights
             alike
pooling      Kernels of pooling, forward and backward
lrn          Kernels of local response normalisation
norm         Batch normalisation with the operations that follow it, over M pixels of C channels
sums         Sums of columns in one launch
pointwise    Kernels that treat numbers one by one, over rows of C numbers
gates        Kernels of activations that multiply x by a gate, over rows of C numbers
             (`ops.reference.gates`)
losses       Softmax over the classes of (N, C, inner) scores, and its loss
updates      One kernel that updates many parameters at once, by any of the solvers' rules (see
             ops.reference.update)
rows         Kernels over the rows of a table
depthwise    Kernels of depthwise convolution
pixels       The kernel that transforms images of bytes

Every kernel is extern "C" and runs over a grid of any size. It needs no shared memory, and sums in a
fixed order, so a repeated run gives the same bits. Atomics only count the threads that have come
(`sums`). `T` is float or double.
An array of `Stored` numbers has type T, or bfloat16 if T is float: the kernel reads and writes them
as T, and a number that it writes is rounded once. `FourStored` are four of them side by side.
Images (N, C, H, W) lie as [N][H][W][C]: they are rows of C numbers, one per pixel. The parameter
that follows an array (`ps`, `ys`) is the distance in numbers between two rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from ops.cuda.kernels.depthwise import DEPTHWISE
from ops.cuda.kernels.folding import FOLDING
from ops.cuda.kernels.gates import GATES
from ops.cuda.kernels.losses import LOSSES
from ops.cuda.kernels.lowering import LOWERING
from ops.cuda.kernels.lrn import LRN
from ops.cuda.kernels.norm import NORM
from ops.cuda.kernels.pixels import PIXELS
from ops.cuda.kernels.pointwise import POINTWISE
from ops.cuda.kernels.pooling import POOLING
from ops.cuda.kernels.rows import ROWS
from ops.cuda.kernels.source_text import BFLOAT16, PRELUDE, STORED, stored_as
from ops.cuda.kernels.sums import SUMS, TOTALS
from ops.cuda.kernels.updates import UPDATES

__all__ = ["KERNELS", "narrow_source", "source"]

KERNELS: dict[str, str] = {
    **LOWERING,
    **FOLDING,
    **DEPTHWISE,
    **POOLING,
    **LRN,
    **NORM,
    **SUMS,
    **POINTWISE,
    **GATES,
    **LOSSES,
    **UPDATES,
    **ROWS,
    **PIXELS,
}


def source(dtype: str) -> str:
    """One translation unit with every kernel, for "float32" or "float64"."""
    prelude = PRELUDE.format(type={"float32": "float", "float64": "double"}[dtype]) + TOTALS
    return prelude + "".join(
        _defined(name, [False] * len(STORED.findall(body))) for name, body in KERNELS.items()
    )


def narrow_source(kernel: str, narrow: Sequence[bool]) -> str:
    """One translation unit with one kernel of float32, whose arrays may be stored in bfloat16.
    `narrow` has one bool for each parameter `Stored*` or `FourStored*`."""
    return PRELUDE.format(type="float") + TOTALS + BFLOAT16 + _defined(kernel, narrow)


def _defined(kernel: str, narrow: Sequence[bool]) -> str:
    return f'extern "C" __global__ void {kernel}{stored_as(KERNELS[kernel], narrow)}\n'
