"""Starting kernels: the grid, and arguments in the types that their parameters have."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ops.cuda import kernels, signatures
from ops.cuda.repeats import Repeats
from ops.errors import OpsError

THREADS = 256
BLOCKS = 1 << 16  # a grid of at most this many; each thread then takes several elements
MOST_ELEMENTS = 2**31 - THREADS * BLOCKS - 1  # indices are int and may overshoot by one grid
NOTHING = np.uint64(0)  # a null pointer


class Divisor(NamedTuple):
    """The three arguments of a kernel for a size that it divides by: for 0 <= k < 2^31, k // size
    is k * factor >> shift."""

    size: Any
    factor: Any
    shift: Any


@lru_cache(maxsize=4096)
def divisor(size: int) -> Divisor:
    """The numbers for `size` from 1 to 2^31 - 1: factor is 2^shift / size rounded up, and below
    2^32."""
    shift = 31 + (size - 1).bit_length()
    return Divisor(np.int32(size), np.uint32(-(-(1 << shift) // size)), np.int32(shift))


class Launcher:
    """The kernels of one module `xp`, compiled when the first of a dtype is started. A kernel that
    reads or writes bfloat16 is compiled by itself, for these arrays. The arguments of a kernel's
    first start are compared with its parameters."""

    def __init__(self, xp: Any, repeats: Repeats | None = None) -> None:
        self._xp = xp
        self._repeats = repeats
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[str, Any, tuple[bool, ...]], Any] = {}

    def __call__(self, kernel: str, threads: int, dtype: Any, *arguments: Any) -> None:
        """Start that many threads of a kernel that computes in this dtype (`arithmetic`). Python's
        integers are passed as int, a `Divisor` as its three numbers, every other argument as it
        is."""
        if threads > MOST_ELEMENTS:
            raise OpsError(
                f"{kernel}: {threads} elements, expected at most {MOST_ELEMENTS} on this backend"
            )
        if threads == 0:
            return
        passed: list[Any] = []
        for a in arguments:
            if type(a) is int:
                passed.append(np.int32(a))
            elif type(a) is Divisor:
                passed.extend(a)
            else:
                passed.append(a)
        narrow = signatures.narrow(kernel, passed)
        function = self._functions.get((kernel, dtype, narrow))
        if function is None:
            signatures.check(kernel, dtype, passed)
            module = self._narrow(kernel, narrow) if narrow else self._module(str(dtype))
            function = self._functions[kernel, dtype, narrow] = module.get_function(kernel)
        blocks = min(-(-threads // THREADS), BLOCKS)
        function((blocks,), (THREADS,), tuple(passed))
        if self._repeats is not None and self._repeats.recording:
            self._repeats.add_launch(function, blocks, THREADS, passed)

    def _module(self, dtype: str) -> Any:
        if dtype not in self._modules:
            self._modules[dtype] = self._compiled(kernels.source(dtype))
        return self._modules[dtype]

    def _narrow(self, kernel: str, narrow: tuple[bool, ...]) -> Any:
        return self._compiled(kernels.narrow_source(kernel, narrow))

    def _compiled(self, code: str) -> Any:
        return self._xp.RawModule(code=code, options=("-std=c++17",))
