"""The modules that are loaded before a run needs its kernels, and those that are not loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def scipy_here(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with a SciPy that prints a line when it is imported, and without
    compiled kernels."""
    package = tmp_path / "scipy"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '1.17.1'\nprint('imported')\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "CONVOY_KERNEL_CACHE": str(tmp_path / "kernels")}


def said(program: str, **options: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, **options
    )
    assert done.stderr == ""
    return done.stdout


def test_preloading_imports_no_scipy_and_leaves_it_importable_afterwards(
    scipy_here: dict[str, str],
) -> None:
    program = """
import ops
ops.preload()
import numba.np.arraymath
print('preloaded, BLAS is', numba.np.arraymath._HAVE_BLAS)
import scipy
"""
    assert said(program, env=scipy_here) == "preloaded, BLAS is True\nimported\n"


def test_an_extension_of_numba_that_needs_scipy_finds_it(
    tmp_path: Path, scipy_here: dict[str, str]
) -> None:
    info = tmp_path / "extension-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extension\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[numba_extensions]\ninit = extension:init\n")
    (tmp_path / "extension.py").write_text("def init():\n    import scipy\n    print('extended')\n")
    assert said("import ops; ops.preload()", env=scipy_here) == "imported\nextended\n"


def test_after_preloading_the_backend_imports_nothing_more_and_a_product_no_compiler_once_it_is_compiled(
    tmp_path: Path,
) -> None:
    program = """
import sys
import numpy as np
import ops
ops.preload()
before = set(sys.modules)
backend = ops.get_backend("cpu", threads=2)
print(sorted(set(sys.modules) - before))
x = np.ones((64, 64), np.float32)
print(backend.dense_forward(x, x, None)[0, 0], "numba" in sys.modules)
"""
    environment = {**os.environ, "CONVOY_KERNEL_CACHE": str(tmp_path)}
    for compiles in (True, False):
        assert said(program, cwd=ROOT, env=environment) == f"[]\n64.0 {compiles}\n"
