"""`precision = "bf16"` on CPUs: with the instructions, without them, and with NumPy's kernels."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from ops.cpu.codegen.target import host
from ops.cpu.codegen.width import VARIABLE
from roles.learning import backends
from roles.learning.backends import ops_of
from runtime.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
REASON = "this processor lacks AVX512_BF16"
TOML = """[train]
precision = "bf16"
kernels = "{kernels}"
"""


def cpu(precision: str) -> Any:
    return ops_of("cpu", "compiled", precision, b_p=None, threads=1, cudnn="off")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without fast products in bfloat16."""
    backends._tell_once.cache_clear()
    monkeypatch.setattr(ops, "lacking", lambda *_: REASON)


def checked(monkeypatch: pytest.MonkeyPatch, folder: Path, kernels: str) -> int:
    """The exit code of `check` for a run on CPUs."""
    monkeypatch.chdir(folder)
    Path("cluster.toml").write_text(TOML.format(kernels=kernels), encoding="utf-8")
    return main(["check", "cluster.toml"])


def checked_with(folder: Path, precision: str, bits: str) -> tuple[int, list[str]]:
    """The exit code and the lines of `check` in a process whose vectors have so many bits."""
    text = f'[train]\nprecision = "{precision}"\n'
    (folder / "cluster.toml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "check", "cluster.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: bits},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.skipif(ops.lacking("cpu", "bf16") is not None, reason=str(ops.lacking("cpu", "bf16")))
def test_a_cpu_with_fast_products_rounds_their_factors() -> None:
    random = np.random.default_rng(1)
    x, w = (random.standard_normal(shape).astype("f") for shape in ((64, 256), (128, 256)))
    exact = x.astype("d") @ w.T
    errors = [
        np.linalg.norm(cpu(precision).dense_forward(x, w, None) - exact) / np.linalg.norm(exact)
        for precision in ("bf16", "tf32")
    ]
    assert 2.0**-12 < errors[0] < 2.0**-7
    assert errors[1] < 2.0**-20


def test_a_cpu_without_fast_products_multiplies_in_float32_and_warns_once(
    without: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "roles"):
        found = [cpu("bf16").precision for _ in range(2)]
    assert found == ["fast", "fast"]
    assert [record.getMessage() for record in caplog.records] == [
        f"the CPU multiplies in float32, not in bfloat16: {REASON}"
    ]


def test_check_refuses_the_precision_on_a_machine_without_the_instructions(
    without: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    assert checked(monkeypatch, tmp_path, "compiled") == 2
    assert capsys.readouterr().err.splitlines() == [
        f"cluster.toml:2: train.precision: found 'bf16', but here {REASON}; use 'fast'"
    ]


def test_check_refuses_the_precision_with_the_kernels_of_numpy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    assert checked(monkeypatch, tmp_path, "numpy") == 2
    assert capsys.readouterr().err.splitlines() == [
        "cluster.toml:2: train.precision: found 'bf16', but NumPy multiplies in float32; "
        "kernels = 'compiled' has it"
    ]


@pytest.mark.skipif(host().bits < 512, reason="this machine has no vectors of 512 bits")
def test_check_names_the_variable_that_narrows_the_vectors(tmp_path: Path) -> None:
    code, lines = checked_with(tmp_path, "bf16", "256")
    assert code == 2
    assert lines == [
        "cluster.toml:2: train.precision: found 'bf16', but here the environment variable "
        "CONVOY_VECTOR_BITS narrows vectors to 256 bits, and AVX512_BF16 needs 512; use 'fast'"
    ]


@pytest.mark.parametrize("precision", ["bf16", "fast"])
def test_check_refuses_a_width_of_vectors_that_does_not_exist(
    tmp_path: Path, precision: str
) -> None:
    code, lines = checked_with(tmp_path, precision, "300")
    assert code == 2
    assert lines == [
        "environment variable CONVOY_VECTOR_BITS: found '300', expected 512, 256 or 128; without "
        "it vectors are as wide as the processor's"
    ]
