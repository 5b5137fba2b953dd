"""The benchmark of ensembles at a small size: `up` and `test` run as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import ensembles
from benchmarks.helpers.report import ROOT, Record


def test_an_ensemble_that_is_no_better_than_the_mean_of_its_members_fails() -> None:
    members = [{"accuracy": 0.9, "loss": 0.4}, {"accuracy": 0.8, "loss": 0.6}]
    for accuracy, status in ((0.851, "passed"), (0.85, "failed"), (0.7, "failed")):
        record = Record("t", status="passed")
        record.table("t", "seed", "accuracy", "loss")
        ensembles.concluded(record, members, {"accuracy": accuracy, "loss": 0.3})
        assert record.status == status
        assert [row[0] for row in record.tables[0].rows] == ["mean", "ensemble"]
        assert record.tables[0].rows[0][1:] == pytest.approx([0.85, 0.5])


def test_the_ensembles_of_three_seeds_that_are_kept_beat_the_mean_of_their_members() -> None:
    files = list((ROOT / "benchmarks" / "results").glob("ensembles-*.json"))
    assert files
    for file in files:
        parts = json.loads(file.read_text())["parts"]
        assert parts.keys() == {"lenet", "cifar10_quick"}
        for part in parts.values():
            assert part["facts"]["test images"] == 10_000
            rows = {row[0]: row[1] for row in part["tables"][0]["rows"]}
            assert rows["mean"] == pytest.approx(sum(rows[seed] for seed in (1, 2, 3)) / 3)
            assert rows["ensemble"] > rows["mean"]


@pytest.mark.slow  # two trainings in processes of their own
def test_two_seeds_are_trained_and_compared(tmp_path: Path) -> None:
    given = ["--seeds", "1", "2", "--lenet-iterations", "6", "--only", "lenet"]
    ensembles.main([*given, "--results", str(tmp_path)])
    (found,) = tmp_path.glob("ensembles-*.json")
    part = json.loads(found.read_text())["parts"]["lenet"]
    assert [row[0] for row in part["tables"][0]["rows"]] == [1, 2, "mean", "ensemble"]
    assert part["facts"]["test images"] == 359
