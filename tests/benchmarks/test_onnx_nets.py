"""The benchmark of graphs from PyTorch: its verdict, and the nets that it does not check twice."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks import onnx_nets
from benchmarks.onnx_nets import Found, checked
from benchmarks.tuning.kept import Kept
from tests.helpers.onnx_graphs import small_net


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (Found("", 9, 0.1, 1e-6, (6.9, 6.8, 6.5)), "passed"),
        (Found("", 9, 0.1, 2e-4, (6.9, 6.8, 6.5)), "failed"),
        (Found("", 9, 0.1, 1e-6, (6.9, 6.8, 7.0)), "failed"),
        (Found("", 9, 0.1, 1e-6, (6.9, float("nan"), float("nan"))), "failed"),
        (Found("MatMul 'a': no layer"), "passed"),
    ],
)
def test_a_graph_that_is_read_has_to_agree_and_to_learn(found: Found, status: str) -> None:
    kept = Kept()
    kept.put("net", asdict(found))
    record = checked([Path("net.onnx")], kept)
    assert record.status == status
    assert record.notes[-1] == (
        "0 graphs are read, 1 refused" if found.refused else "1 graphs are read, 0 refused"
    )


def test_a_net_that_was_checked_is_not_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[onnx]'")
    from onnx.reference import ReferenceEvaluator

    monkeypatch.setattr(onnx_nets, "ROWS", 2)
    graph, out = small_net()
    path = graph.write(tmp_path / "net.onnx", out)
    x = np.random.default_rng(1).standard_normal((2, *graph.shape[1:])).astype(np.float32)
    (y,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    np.savez(tmp_path / "net.npz", x=x, y=y)
    assert checked([path], Kept(tmp_path / "found.jsonl")).status == "passed"
    monkeypatch.setattr(onnx_nets, "check", None)
    record = checked([path], Kept(tmp_path / "found.jsonl"))
    assert record.status == "passed"
    _, _, _, error, loss, after = record.tables[0].rows[0]
    assert 0 < error <= 1e-4
    assert after < loss
