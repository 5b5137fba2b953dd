"""The benchmark of products in bfloat16: its message without PyTorch, and a run with one small
shape."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import ops
from benchmarks.kernels import products
from benchmarks.kernels.bounds import Bounds
from benchmarks.kernels.products import Shape, main

LACKING = ops.lacking("cpu", "bf16")


def test_without_torch_the_benchmark_of_products_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(products, "missing", lambda _: ["torch"])
    assert main([]) == 1
    assert "python -m pip install torch" in capsys.readouterr().out


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch, the peer")
@pytest.mark.skipif(LACKING is not None, reason=str(LACKING))
def test_a_product_is_measured_on_every_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(products.bounds, "measured", lambda *_: Bounds(10.0, 200.0, 100.0))
    monkeypatch.setattr(products, "SHAPES", (Shape("small", 64, 128, 96, "ab"),))
    main(["--seconds", "0.01", "--results", str(tmp_path)])
    (found,) = tmp_path.glob("products-*.json")
    (part,) = json.loads(found.read_text())["parts"].values()
    (row,) = part["tables"][0]["rows"]
    assert row[:4] == ["small", 64, 128, 96]
    assert all(rate > 0 for rate in row[4:])
