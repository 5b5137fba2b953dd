"""Products by cuBLAS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ops.cuda.image_layout import address, step_of
from ops.cuda.repeats import Repeats
from ops.errors import Array, OpsError, first_line


class Cublas:
    """Products by cuBLAS, with options that CuPy's `matmul` lacks: rows that lie apart, sums into
    `out`, the precision.

    "tf32" rounds float32 factors to 10 bits behind the point and "bf16" to 7. The tensor cores
    round factors as they read them; products are summed in float32. Factors that are stored in
    bfloat16 give float32 or bfloat16. `library`: what makes its handle, and cuBLAS as CuPy calls
    it.
    """

    def __init__(
        self,
        cupy: Any,
        library: tuple[Callable[[], int], Any],
        precision: str,
        repeats: Repeats,
    ) -> None:
        self._cupy = cupy
        self._handle, cublas = library
        self._gemm = cublas.gemmEx
        self._repeats = repeats
        try:
            # now, because it takes memory of the device: a lack of memory is reported before the
            # run begins
            self._handle()
        except Exception as error:
            why = "often the device's memory does not suffice: nvidia-smi lists the processes on it"
            raise OpsError(
                f"backend 'cupy': cuBLAS does not start ({first_line(error)}); {why}"
            ) from error
        fast = {"full": "", "tf32": "_FAST_TF32", "bf16": "_FAST_16BF"}[precision]
        runtime = cupy.cuda.runtime
        self._kinds = {
            "float32": (runtime.CUDA_R_32F, getattr(cublas, f"CUBLAS_COMPUTE_32F{fast}")),
            "float64": (runtime.CUDA_R_64F, cublas.CUBLAS_COMPUTE_64F),
            "bfloat16": (runtime.CUDA_R_16BF, cublas.CUBLAS_COMPUTE_32F),
        }
        self._algorithm = cublas.CUBLAS_GEMM_DEFAULT
        self._factors = {name: np.array([0, 1], name) for name in ("float32", "float64")}
        self._factors["bfloat16"] = self._factors["float32"]

    def __call__(self, a: Array, b: Array, out: Array, accumulate: bool) -> None:
        """out = a b, or out + a b if `accumulate`."""
        if out.size == 0:
            return
        if step_of(out) is None or a.shape[1] == 0:
            self._repeats.spoil()
            out[...] = (out if accumulate else 0) + self._cupy.matmul(a, b)
            return
        (a, turn_a, step_a), (b, turn_b, step_b) = self._factor(a), self._factor(b)
        kind, compute = self._kinds[str(a.dtype)]
        result, _ = self._kinds[str(out.dtype)]
        numbers = self._factors[str(out.dtype)]
        number = numbers.ctypes.data  # the address of 0; 1 follows it
        one = number + numbers.itemsize
        # cuBLAS counts columns first: our rows are its columns, and it computes out' = b' a'
        arguments = (
            turn_b,
            turn_a,
            out.shape[1],
            out.shape[0],
            a.shape[1],
            one,
            address(b),
            kind,
            step_b,
            address(a),
            kind,
            step_a,
            one if accumulate else number,
            address(out),
            result,
            step_of(out),
            compute,
            self._algorithm,
        )
        call = partial(self._gemm, self._handle(), *arguments)
        call()
        self._repeats.add(call, lambda to: to.product(*arguments), a, b, out)

    def _factor(self, x: Array) -> tuple[Array, int, int]:
        """Return x, whether cuBLAS transposes it, and the distance between its rows (else its
        columns)."""
        if (step := step_of(x)) is not None:
            return x, 0, step
        if (step := step_of(x.T)) is not None:
            return x, 1, step
        self._repeats.spoil()
        x = self._cupy.ascontiguousarray(x)
        return x, 0, x.shape[1]
