"""What is loaded before the kernels of a run are needed, and what is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_preloading_imports_no_scipy_and_hides_it_from_nobody_afterwards(tmp_path: Path) -> None:
    package = tmp_path / "scipy"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '1.17.1'\nprint('imported')\n")
    program = """
import ops
ops.preload()
import numba.np.arraymath
print('preloaded, BLAS is', numba.np.arraymath._HAVE_BLAS)
import scipy
"""
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "preloaded, BLAS is True\nimported\n"


def test_after_preloading_the_backend_imports_nothing_more() -> None:
    program = """
import sys
import ops
ops.preload()
before = set(sys.modules)
ops.get_backend("cpu", threads=2)
print(sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
