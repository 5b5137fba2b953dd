"""A machine on which the compiler of the kernels cannot be imported: training uses plain NumPy, and
reports it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops import KernelsMissing, get_backend
from ops.cpu.codegen import store
from tests.helpers import support
from tests.helpers.support import ROOT, configure, environment, events, run_directory, run_up


@pytest.fixture
def without_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every process find a numba that does not load, and no compiled kernel."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(
        'raise ImportError("no numba for this machine")'
    )
    found = environment()
    found["PYTHONPATH"] = os.pathsep.join([str(tmp_path), found["PYTHONPATH"]])
    found["CONVOY_KERNEL_CACHE"] = str(tmp_path / "kernels")
    monkeypatch.setattr("tests.helpers.support.environment", lambda: found)


def test_where_numba_cannot_be_imported_training_uses_numpy_and_reports_it(without_numba, tmp_path):
    cluster = configure(tmp_path / "run", "sync", workers=2, iterations=3)
    done = run_up(cluster)
    assert done.returncode == 0, done.stdout + done.stderr
    directory = run_directory(cluster)
    assert len(events(directory, "progress")) == 3
    logged = "".join(path.read_text() for path in directory.rglob("*.log"))
    told = "numba cannot be imported here (no numba for this machine); computing with plain NumPy"
    assert told in logged
    # where `up` was typed, and once, whatever the number of processes
    assert done.stdout.count(told) == 1


def test_an_unavailable_backend_is_a_separate_error(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "place", lambda: store.Place(tmp_path))
    for name in ("ops.cpu.codegen.loops", "numba"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(KernelsMissing, match="backend 'cpu': numba cannot be imported here"):
        get_backend("cpu")


COMPUTES = """
import sys
import numpy as np
from ops import OpsError, get_backend
x = np.ones((64, 64), np.float32)
backend = get_backend("cpu")
print(backend.dense_forward(x, x, None)[0, 0])
try:
    backend.dropout(x, 0.5, 1) if "drop" in sys.argv else None
except OpsError as error:
    print(error)
"""


def test_compiled_kernels_need_no_numba_and_others_report_that_they_need_it(
    without_numba, tmp_path
):
    broken = support.environment()
    whole = {**broken, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", COMPUTES]
    assert subprocess.check_output(command, env=whole, text=True) == "64.0\n"
    why = (
        "kernel 'drop' is not compiled yet, and numba cannot be imported here (no numba "
        "for this machine)"
    )
    assert subprocess.check_output([*command, "drop"], env=broken, text=True) == f"64.0\n{why}\n"
