"""A second run of tests of this folder with narrower vectors. It needs another process, since a
process makes kernels for one width."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def passes_with_narrow_vectors(path: str, select: str, bits: int = 256) -> None:
    """Run the tests of the file that match `select` (pytest's -k) with vectors of `bits` bits.
    Checks that they pass, and that some were selected."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        path,
        "-k",
        f"({select}) and not bits",
        "-x",
        "--color=no",
    ]
    environment = {**os.environ, "CONVOY_VECTOR_BITS": str(bits)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
