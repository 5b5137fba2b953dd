"""`precision = "bf16"` on CPUs: with the instructions, without them, and with NumPy's kernels."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from roles.learning import backends
from roles.learning.backends import ops_of
from runtime.cli.main import main

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
        f"cluster.toml:2: train.precision: found 'bf16', but here {REASON}"
    ]


def test_check_refuses_the_precision_with_the_kernels_of_numpy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    assert checked(monkeypatch, tmp_path, "numpy") == 2
    assert capsys.readouterr().err.splitlines() == [
        "cluster.toml:2: train.precision: found 'bf16', but NumPy multiplies in float32; "
        "kernels = 'compiled' has it"
    ]
