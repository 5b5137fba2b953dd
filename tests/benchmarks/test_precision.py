"""The benchmark of precisions at a small size: trainings are kept, and a cut one is made again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ops
from benchmarks import precision
from benchmarks.precision import NUDGED, main


def shares_of(folder: Path) -> list[Any]:
    """The row of the first seed in the results of LeNet."""
    (file,) = folder.glob("precision-*.json")
    row: list[Any] = json.loads(file.read_text())["parts"]["lenet"]["tables"][0]["rows"][0]
    return row


def test_a_benchmark_of_precisions_that_was_cut_off_trains_only_what_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[str, bool]] = []

    def accuracy(task: Any, ops: Any, seed: int, *, nudge: bool) -> float:
        if len(trained) == 1:
            trained.clear()
            raise KeyboardInterrupt
        trained.append((ops.precision, nudge))
        return 0.5 + nudge / 4

    monkeypatch.setattr(precision, "accuracy", accuracy)
    monkeypatch.setattr(ops, "lacking", lambda *_: "no bfloat16 here")
    words = ["--seeds", "1", "--kept", str(tmp_path / "kept.jsonl"), "--results", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        main(words)
    monkeypatch.setattr(precision, "accuracy", lambda *_, nudge: 0.25 + nudge / 4)
    main(words)
    assert shares_of(tmp_path) == [0, 0.5, 0.25, 0.5]
    monkeypatch.setattr(precision, "accuracy", None)
    main(words)
    assert shares_of(tmp_path) == [0, 0.5, 0.25, 0.5]


def test_another_number_of_iterations_is_another_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def accuracy(task: Any, ops: Any, seed: int, *, nudge: bool) -> float:
        lengths.append(task.iterations)
        return 0.5

    monkeypatch.setattr(precision, "accuracy", accuracy)
    monkeypatch.setattr(ops, "lacking", lambda *_: "no bfloat16 here")
    words = ["--seeds", "1", "--kept", str(tmp_path / "kept.jsonl"), "--results", str(tmp_path)]
    for iterations in ("3", "4"):
        main([*words, "--digits-iterations", iterations])
    assert lengths == [3, 3, 3, 4, 4, 4]


def test_resnet20_compares_float32_and_bfloat16_at_a_rate_that_falls_to_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[str, str, str]] = []

    def accuracy(task: Any, ops: Any, seed: int, *, nudge: bool) -> float:
        trained.append((task.net, task.schedule, ops.precision))
        return 0.5

    monkeypatch.setattr(precision, "accuracy", accuracy)
    monkeypatch.setattr(precision, "backend_of", lambda way, _: SimpleNamespace(precision=way))
    monkeypatch.setattr(ops, "lacking", lambda *_: None)
    words = ["--seeds", "1", "--kept", str(tmp_path / "kept.jsonl"), "--results", str(tmp_path)]
    words += ["--cifar10", str(tmp_path), "--cifar10-iterations", "0"]
    main([*words, "--digits-iterations", "0", "--resnet20-iterations", "2"])
    assert trained == [("resnet20", "cosine", "fast"), ("resnet20", "cosine", "bf16")]


@pytest.mark.slow  # five trainings of LeNet
def test_lenet_is_trained_in_every_way_and_scored(tmp_path: Path) -> None:
    words = ["--seeds", "1", "--digits-iterations", "5", "--numpy"]
    main([*words, "--kept", str(tmp_path / "kept.jsonl"), "--results", str(tmp_path)])
    _, *shares = shares_of(tmp_path)
    assert len(shares) == 4 + (ops.lacking("cpu", "bf16") is None)
    assert all(0 <= share <= 1 for share in shares)
    names = [
        json.loads(line)["name"]
        for line in (tmp_path / "kept.jsonl").read_text().split("\n")
        if line
    ]
    assert f"lenet, {NUDGED}, 5 iterations, seed 0" in names
