"""The start of the stand-in: `cupy_backends/__init__.py` imports this module before CuPy loads
CUDA.

`counts()` returns the numbers of operations of this process on its devices so far. FAKE_CUDA_SEED
is the seed of the order in which queued work runs; `seed()` changes it.
FAKE_CUDA_SANITIZE=1 compiles kernels that are not CuPy's with the sanitizers. `import
fake_cuda.unpooled` gives every array its own block of memory, so that the sanitizers know where it
ends.
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
    # kernels compiled here must never reach the cache of a real GPU
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB contains its own CUDA runtime
    library = ctypes.CDLL(str(HERE / "libfake_cuda.so"))
    library.fake_compiler(os.fsencode(HERE), os.fsencode(kernels), own.encode())
    library.fake_counts.restype = ctypes.c_char_p
    library.fake_seed.argtypes = [ctypes.c_uint64]
    # a later request for one of these names gets the library that is loaded already
    for name in LIBRARIES:
        ctypes.CDLL(str(HERE / name), ctypes.RTLD_GLOBAL)
    return library


_library = _load()


def counts() -> dict[str, int]:
    """The numbers of launches, compilations, copies and their bytes, synchronisations, allocations,
    products, graphs and forks so far. Captured work is not counted; the launch of its graph is."""
    values = (ctypes.c_long * 32)()
    names = _library.fake_counts(values).decode().split()
    return dict(zip(names, values, strict=False))


def finish() -> None:
    """Wait for all queued work of this process."""
    _library.fake_finish()


def seed(number: int) -> None:
    """Finish the queued work. Later work runs in the order that `number` draws: 0 is the order of
    the calls."""
    _library.fake_seed(number)


def counted(work) -> dict[str, int]:
    """The counts that `work` changes, and by how much."""
    before = counts()
    work()
    return {name: count - before[name] for name, count in counts().items() if count != before[name]}
