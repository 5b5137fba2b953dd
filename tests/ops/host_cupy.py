"""A stand-in for the module cupy that runs the CUDA kernels on the processor.

Arrays are NumPy's. The host's C++ compiler compiles the kernels' text with a few lines in front.
The kernels use no shared memory, so a grid is a loop over its threads. The arguments of every start
are checked; the backend checks a kernel's first. Differences between NumPy and CuPy themselves are
not tested.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ops import OpsError
from ops.cuda import signatures

HOST = """
#include <cmath>
#include <cstddef>
#include <cstring>
using std::exp;
using std::pow;
using std::sqrt;
struct Index { int x; };
static Index blockIdx, threadIdx, blockDim, gridDim;
#define __global__
#define __device__
static inline void __threadfence() {}
static inline int atomicAdd(int* p, int v) { int old = *p; *p += v; return old; }
static inline float __int_as_float(int bits) { float f; std::memcpy(&f, &bits, 4); return f; }
static inline float __uint_as_float(unsigned bits) { return __int_as_float((int)bits); }
static inline unsigned __float_as_uint(float f) { unsigned bits; std::memcpy(&bits, &f, 4); return bits; }
extern "C" void place_thread(int block, int thread, int blocks, int threads) {
    blockIdx.x = block; threadIdx.x = thread; gridDim.x = blocks; blockDim.x = threads;
}
"""
BLOCKS = 2  # a small emulated grid, so that most threads take several elements
THREADS = 3
# names of NumPy that the backend must not use
BEYOND_CUPY = ("indices", "errstate", "vecdot", "nditer")


class HostCupy:
    """The module numpy with RawModule, and without the names that CuPy lacks."""

    def __init__(self) -> None:
        if shutil.which("g++") is None:
            raise OpsError("no g++ here to compile the CUDA kernels for the processor")

    def __getattr__(self, name: str) -> Any:
        if name in BEYOND_CUPY:
            raise AttributeError(f"cupy has no {name}")
        return getattr(np, name)

    def asnumpy(self, x: Any) -> Any:
        return np.asarray(x)

    def RawModule(self, code: str, options: tuple[str, ...]) -> Module:
        return Module(code, options)


class Module:
    """The kernels of one source, compiled when the first is requested."""

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self.code = code
        self.options = options
        self.library = None

    def get_function(self, name: str) -> Any:
        if self.library is None:
            self.library = self._compile()
        return lambda grid, block, arguments: self._launch(name, arguments)

    def _compile(self) -> ctypes.CDLL:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "kernels.cpp")
            library = Path(folder, "kernels.so")
            text.write_text(HOST + self.code)
            flags = ["-O1", "-shared", "-fPIC", "-w", *self.options]
            subprocess.run(["g++", *flags, text, "-o", library], check=True)
            return ctypes.CDLL(str(library))

    def _launch(self, name: str, arguments: tuple[Any, ...]) -> None:
        scalar = np.float32 if "typedef float T" in self.code else np.float64
        signatures.check(name, scalar, arguments)
        kinds = signatures.parameters(name)
        passed = [converted(*pair, scalar) for pair in zip(kinds, arguments, strict=True)]
        for block in range(BLOCKS):
            for thread in range(THREADS):
                self.library.place_thread(block, thread, BLOCKS, THREADS)
                getattr(self.library, name)(*passed)


def converted(kind: str, value: Any, scalar: Any) -> Any:
    """Convert an argument for ctypes."""
    if type(value) is np.uint64:
        return ctypes.c_void_p(None)
    if kind.endswith("*"):
        return ctypes.c_void_p(value.ctypes.data)
    return np.ctypeslib.as_ctypes_type(signatures.number_of(kind, scalar))(value.item())
