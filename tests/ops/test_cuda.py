"""The CuPy backend without CuPy or a GPU, and the functions that CuPy must have."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

import ops
from ops import OpsError, get_backend

needs_cupy = pytest.mark.skipif(
    importlib.util.find_spec("cupy") is None, reason="needs cupy, which is not here"
)


def test_without_cupy_or_a_gpu_the_backend_names_the_missing_one():
    if importlib.util.find_spec("cupy") is not None:
        import cupy

        if cupy.is_available():
            pytest.skip("cupy and a GPU are here")
        with pytest.raises(OpsError, match=r"no NVIDIA driver|no CUDA device"):
            get_backend("cupy")
    else:
        with pytest.raises(
            OpsError,
            match=(r"cupy cannot be imported .*install the extra " r"'gpu' or cupy-cuda13x\[ctk\]"),
        ):
            get_backend("cupy")


def files() -> list[Path]:
    return sorted(Path(ops.__file__).parent.rglob("*.py"))


def test_only_one_file_imports_cupy_and_that_inside_a_function():
    for file in files():
        tree = ast.parse(file.read_text())
        importing = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Import) and any(a.name == "cupy" for a in n.names)
        ]
        assert bool(importing) == (file.name == "cupy_backend.py"), file
        assert not any(node in tree.body for node in importing)


@needs_cupy
def test_cupy_has_every_function_the_families_call():
    import cupy

    own = {"reduceat"}  # functions of sum_rows, which the CuPy backend overrides
    for file in files():
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "xp"
            ):
                assert hasattr(cupy, node.attr) or node.attr in own, f"{file.name}: xp.{node.attr}"
