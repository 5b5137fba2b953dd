"""The CUDA sources compile for Hopper and Ampere; the CuPy backend says what is missing and what CuPy must have."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

import ops
from ops import OpsError, cuda, get_backend

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, which is not here")
needs_cupy = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs cupy, which is not here")


@needs_nvcc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kernel_compiles_without_a_warning(dtype, tmp_path):
    text = tmp_path / "kernels.cu"
    text.write_text(cuda.source(dtype))
    flags = ["-cubin", "-arch=sm_90", "-std=c++17", "-Werror=all-warnings", "-ftz=true"]
    done = subprocess.run(["nvcc", *flags, text, "-o", tmp_path / "kernels.cubin"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cubin = (tmp_path / "kernels.cubin").read_bytes()
    assert all(f".text.{name}".encode() in cubin for name in cuda.KERNELS)


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
