"""A machine on which the compiler of the kernels cannot be imported: training goes on with plain NumPy, and says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ops import KernelsMissing, get_backend
from tests.support import configure, environment, events, run_directory, run_up


@pytest.fixture
def without_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process started from here finds a numba that does not load."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text('raise ImportError("no numba for this machine")')
    found = environment()
    found["PYTHONPATH"] = os.pathsep.join([str(tmp_path), found["PYTHONPATH"]])
    monkeypatch.setattr("tests.support.environment", lambda: found)


def test_where_numba_cannot_be_imported_training_goes_on_with_numpy_and_says_so(without_numba, tmp_path):
    cluster = configure(tmp_path / "run", "sync", workers=2, iterations=3)
    done = run_up(cluster)
    assert done.returncode == 0, done.stdout + done.stderr
    directory = run_directory(cluster)
    assert len(events(directory, "progress")) == 3
    logged = "".join(path.read_text() for path in directory.rglob("*.log"))
    told = "numba cannot be imported here (no numba for this machine); computing with plain NumPy"
    assert told in logged
    assert done.stdout.count(told) == 1  # where `up` was typed, and once, whatever the number of processes


def test_a_backend_that_cannot_be_had_is_an_error_of_its_own(monkeypatch):
    for name in ("ops.backends.cpu_backend", "numba"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(KernelsMissing, match="backend 'cpu': numba cannot be imported here"):
        get_backend("cpu")
