"""The benchmark of the operations that are no products: its message without PyTorch, and a run on
small images."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks.kernels import passes


def test_without_torch_the_benchmark_of_passes_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(passes, "missing", lambda _: ["torch"])
    assert passes.main([]) == 1
    assert "python -m pip install torch" in capsys.readouterr().out


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch, the peer")
def test_every_operation_is_measured_on_every_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(passes, "SHAPE", (2, 16, 6, 6))
    monkeypatch.setattr(passes, "WEIGHTS", (8, 8))
    monkeypatch.setattr(passes, "copy_rate", lambda *_: 10.0)
    passes.main(["--seconds", "0.001", "--results", str(tmp_path)])
    (found,) = tmp_path.glob("passes-*.json")
    (part,) = json.loads(found.read_text())["parts"].values()
    rows = part["tables"][0]["rows"]
    assert {"relu, forward", "gelu, backward", "LRN, forward", "dropout"} <= {
        row[0] for row in rows
    }
    assert all(number > 0 for row in rows for number in row[1:])
