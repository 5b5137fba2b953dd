"""The benchmark of the operations that are no products: its message without PyTorch, and a run on
small images."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import ops
from benchmarks.kernels import passes

LACKING = ops.lacking("cpu", "bf16")


def test_without_torch_the_benchmark_of_passes_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(passes, "missing", lambda _: ["torch"])
    assert passes.main([]) == 1
    assert "python -m pip install torch" in capsys.readouterr().out


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch, the peer")
@pytest.mark.parametrize(
    ("precision", "others"),
    [
        ("fast", {"LRN, forward", "dropout"}),
        pytest.param(
            "bf16", set(), marks=pytest.mark.skipif(LACKING is not None, reason=str(LACKING))
        ),
    ],
)
def test_every_operation_is_measured_on_every_side(
    precision: str, others: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(passes, "SHAPE", (2, 16, 6, 6))
    monkeypatch.setattr(passes, "WEIGHTS", (8, 8))
    monkeypatch.setattr(passes, "copy_rate", lambda *_: 10.0)
    words = ["--precision", precision, "--seconds", "0.001", "--results", str(tmp_path)]
    passes.main(words)
    (found,) = tmp_path.glob("passes-*.json")
    (part,) = json.loads(found.read_text())["parts"].values()
    rows = part["tables"][0]["rows"]
    names = {row[0] for row in rows}
    assert {"relu, forward", "gelu, backward"} | others <= names
    assert {
        f"BatchNorm, Scale, addition and ReLU, {way}" for way in ("forward", "backward")
    } < names
    assert all(number > 0 for row in rows for number in row[1:])
