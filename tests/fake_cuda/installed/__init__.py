"""Puts the stand-in in front of CuPy: `cupy_backends/__init__.py` imports this before it asks for
CUDA.

`counts()` tells what this process has done on its devices so far. FAKE_CUDA_SANITIZE=1 compiles
kernels that are not CuPy's with the sanitizers; `import fake_cuda.unpooled` gives every array a
block of its own, whose ends they know.
"""

import ctypes
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = (
    "libcudart.so.13",
    "libcuda.so.1",
    "libnvrtc.so.13",
    "libcublas.so.13",
    "libcublasLt.so.13",
)
SANITIZED = (
    "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
)


def _load():
    own = f" {SANITIZED}" if os.environ.get("FAKE_CUDA_SANITIZE") else " -O1"
    kernels = HERE / "kernels"
    kernels.mkdir(exist_ok=True)
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # what is compiled here must never reach a GPU's cache
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB has a CUDA runtime of its own inside
    library = ctypes.CDLL(str(HERE / "libfake_cuda.so"))
    library.fake_compiler(os.fsencode(HERE), os.fsencode(kernels), own.encode())
    library.fake_counts.restype = ctypes.c_char_p
    for name in LIBRARIES:  # whoever asks for this name later gets what is loaded already
        ctypes.CDLL(str(HERE / name), ctypes.RTLD_GLOBAL)
    return library


_library = _load()


def counts() -> dict[str, int]:
    """Launches, compilations, copies and their bytes, synchronisations, allocations, products,
    forks so far."""
    values = (ctypes.c_long * 32)()
    names = _library.fake_counts(values).decode().split()
    return dict(zip(names, values, strict=False))


def counted(work) -> dict[str, int]:
    """What `work` does of each, if it does any."""
    before = counts()
    work()
    return {name: count - before[name] for name, count in counts().items() if count != before[name]}
