"""The Bayesian baseline of the tuner's benchmark: it gets the same laboratory and the same budget,
and no more."""

from __future__ import annotations

import asyncio
import math
import warnings

import pytest

from benchmarks.helpers.report import Record
from benchmarks.tuning import bayes as tuning_bayes
from benchmarks.tuning.runs import Setting as Point
from roles.tuning.choices import Choices, Setting
from roles.tuning.trials import Trials
from tests.roles.laboratories import Written

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of packages that optuna imports
    pytest.importorskip("optuna", reason="the extra tuning-peers is not installed")

START = Setting(1, 0.9, 0.1)


@pytest.mark.parametrize("last", [200, 2000, 20_000])
def test_it_finds_the_best_of_a_small_grid_if_its_budget_lasts_and_never_spends_more(
    last: int,
) -> None:
    lab = Written(lambda setting, at: 1.0 + abs(setting.groups - 2) + abs(setting.momentum - 0.3))
    choices = Choices(groups=(1, 2, 4), momenta=(0.0, 0.3, 0.9), last=last, probe_iterations=20)
    found = asyncio.run(
        tuning_bayes.BayesianSearch(Trials(lab, choices, last), choices, START, seed=1).chosen()
    )
    assert found.spent <= 0.1 * last
    assert len(lab.asked) == len(set(lab.asked)) == len(found.tried)
    if last == 20_000:
        assert found.setting == Setting(2, 0.3, 0.1)


@pytest.mark.slow
def test_both_searches_are_in_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_bayes, "SEEDS", 1)
    record = Record("r")
    tuning_bayes.bayes(record, 0)
    assert [row[1] for row in record.tables[0].rows] == ["Algorithm 1", "Bayesian"]
    assert (record.status, record.notes) == ("running", [])


def test_a_search_over_tried_points_ends_near_the_best_and_counts_each_once() -> None:
    points = {
        Point(groups, momentum, rate): (math.inf if momentum else float(10 + groups), 5.0)
        for groups in (1, 2, 4)
        for momentum in (0.0, 0.9)
        for rate in (0.1, 0.01)
    }
    record = Record("r")
    tuning_bayes.searches_of(record, points, auto=22.0)
    rows = record.tables[0].rows
    assert len(rows) == tuning_bayes.SEARCHES
    assert all(1 <= row[1] <= len(points) and row[2] == 5.0 * row[1] for row in rows)
    assert min(row[1] for row in rows) < len(points)
    assert record.facts["Bayesian search / auto"] == pytest.approx(
        sum(row[2] for row in rows) / len(rows) / 22
    )
