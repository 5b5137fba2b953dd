"""The CUDA sources compile for Hopper and Ampere; the CuPy backend says what is missing and what CuPy must have."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
from contextlib import suppress
from pathlib import Path

import pytest

import ops
from ops import OpsError, cuda, get_backend

needs_cupy = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs cupy, which is not here")


def compiled(source: str, arch: str) -> tuple[bytes, str]:
    """The cubin that NVRTC makes of a source with CuPy's flags, and what it says meanwhile. Needs no GPU."""
    library = nvrtc()
    if library is None:
        pytest.skip("needs NVRTC, CUDA's run-time compiler: python -m pip install nvidia-cuda-nvrtc")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    flags = [b"--gpu-architecture=" + arch.encode(), b"-std=c++17", b"-ftz=true"]
    status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    said = log.value.decode()
    assert status == 0, said
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, cubin)
    return cubin.raw, said


def nvrtc() -> ctypes.CDLL | None:
    """NVRTC of its wheel, or of the system."""
    nvidia = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (nvidia.submodule_search_locations or ())] if nvidia is not None else []
    wheels = [path for folder in folders for path in sorted(folder.glob("c*/lib/libnvrtc.so.*"))]
    for name in (*wheels, "libnvrtc.so.13", "libnvrtc.so.12"):
        with suppress(OSError):
            return ctypes.CDLL(str(name))
    return None


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kernel_compiles_without_a_warning(dtype: str, arch: str) -> None:
    cubin, said = compiled(cuda.source(dtype), arch)
    assert said == ""
    assert all(f".text.{name}".encode() in cubin for name in cuda.KERNELS)


def test_the_compiler_tells_of_a_mistake_in_a_kernel() -> None:
    with pytest.raises(AssertionError, match=r"kernels\.cu.*identifier .absent. is undefined"):
        compiled(cuda.source("float32") + "__device__ int planted() { return absent; }", "sm_90")


def test_without_cupy_or_a_gpu_the_backend_says_what_is_missing():
    if importlib.util.find_spec("cupy") is not None:
        import cupy

        if cupy.is_available():
            pytest.skip("cupy and a GPU are here")
        with pytest.raises(OpsError, match=r"no NVIDIA driver|no CUDA device"):
            get_backend("cupy")
    else:
        with pytest.raises(OpsError, match=r"cupy cannot be imported .*install the extra 'gpu' or cupy-cuda13x\[ctk\]"):
            get_backend("cupy")


def files() -> list[Path]:
    return sorted(Path(ops.__file__).parent.rglob("*.py"))


def test_only_one_file_imports_cupy_and_that_inside_a_function():
    for file in files():
        tree = ast.parse(file.read_text())
        importing = [n for n in ast.walk(tree) if isinstance(n, ast.Import) and any(a.name == "cupy" for a in n.names)]
        assert bool(importing) == (file.name == "cupy_backend.py"), file
        assert not any(node in tree.body for node in importing)


@needs_cupy
def test_cupy_has_every_function_the_families_call():
    import cupy

    own = {"reduceat"}  # sum_rows, which the CuPy backend overrides
    for file in files():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "xp":
                assert hasattr(cupy, node.attr) or node.attr in own, f"{file.name}: xp.{node.attr}"
