"""The benchmark of recipes at a small size: `up` runs as a user types it."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks import recipes
from benchmarks.recipes import AS_IT_IS, MOVED, RECIPE


@pytest.mark.parametrize(
    ("scores", "status"), [([0.915, 0.917], "passed"), ([0.912, 0.915], "failed")]
)
def test_a_recipe_has_to_beat_the_best_solver_by_the_bar(scores: list[float], status: str) -> None:
    found = {RECIPE: scores, AS_IT_IS: [0.85, 0.86], MOVED: [0.899, 0.901]}
    record = recipes.judged(found, [1, 2], 30)
    assert record.status == status
    assert record.tables[0].rows[2] == [MOVED.name, 0.899, 0.901, pytest.approx(0.9)]


def test_a_run_that_was_cut_off_is_resumed_and_all_its_scores_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []

    def up(folder: Path, *words: str) -> None:
        """A run of two epochs. The first one is cut off after its first epoch."""
        made = folder / "runs" / str(len(started))
        made.mkdir(parents=True)
        (made / "checkpoint.safetensors").touch()
        first = {"event": "test", "iteration": 313, "accuracy": 0.2}
        second = {"event": "test", "iteration": 625, "accuracy": 0.1}
        told = [second] if "--resume" in words else [first] if not started else [first, second]
        (made / "events.jsonl").write_text("\n".join(map(json.dumps, told)))
        started.append(words)
        if len(started) == 1:
            raise subprocess.CalledProcessError(1, "up")

    monkeypatch.setattr(recipes, "_up", up)
    kept = tmp_path / "kept.jsonl"
    given = ["--cifar10", str(tmp_path), "--seeds", "1", "--kept", str(kept)]
    with pytest.raises(subprocess.CalledProcessError):
        recipes.main(given)
    recipes.main([*given, "--results", str(tmp_path)])
    assert ["--resume" in words for words in started] == [False, True, False, False]
    (file,) = tmp_path.glob("recipes-*.json")
    rows = json.loads(file.read_text())["parts"]["resnet20"]["tables"][0]["rows"]
    assert [row[1] for row in rows] == [0.1, 0.2, 0.2]
    assert not any(tmp_path.glob("kept/*"))


@pytest.mark.slow  # three trainings of a residual net
def test_finished_runs_are_kept_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = np.random.default_rng(1).integers(0, 10, (32, 3073), dtype=np.uint8)
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.bin.gz").write_bytes(gzip.compress(records.tobytes()))
    kept = tmp_path / "kept.jsonl"
    given = ["--cifar10", str(tmp_path), "--seeds", "1", "--epochs", "3", "--kept", str(kept)]
    recipes.main([*given, "--results", str(tmp_path)])
    lines = kept.read_text().split()
    monkeypatch.setattr(recipes, "_trained", None)
    recipes.main([*given, "--results", str(tmp_path)])
    assert kept.read_text().split() == lines
    (file,) = tmp_path.glob("recipes-*.json")
    rows = json.loads(file.read_text())["parts"]["resnet20"]["tables"][0]["rows"]
    assert [row[0] for row in rows] == [RECIPE.name, AS_IT_IS.name, MOVED.name]
