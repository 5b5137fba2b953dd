"""The benchmark of LSTMs: its message without PyTorch, and a run with one small size."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import ops
from benchmarks.kernels import sequences
from benchmarks.kernels.sequences import Sequences, main

LACKING = ops.lacking("cpu", "bf16")


def test_without_torch_the_benchmark_of_lstms_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sequences, "missing", lambda _: ["torch"])
    assert main([]) == 1
    assert "python -m pip install torch" in capsys.readouterr().out


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch, the peer")
@pytest.mark.skipif(LACKING is not None, reason=str(LACKING))
def test_both_passes_of_an_lstm_are_measured_on_every_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sequences, "SIZES", (Sequences("small", 3, 4, 8, 16),))
    monkeypatch.setattr(sequences, "product_rate", lambda *_: 100.0)
    main(["--seconds", "0.01", "--results", str(tmp_path)])
    (found,) = tmp_path.glob("sequences-*.json")
    (part,) = json.loads(found.read_text())["parts"].values()
    rows = part["tables"][0]["rows"]
    assert [row[:2] for row in rows] == [["small", "forward"], ["small", "backward"]]
    assert all(number > 0 for row in rows for number in row[2:])
