"""The benchmark of predictions of real work: its comparisons, its failures, and a whole run at a
small size."""

from __future__ import annotations

import pytest

from benchmarks.helpers.report import Record
from benchmarks.tuning import real as tuning_real
from runtime import Event


def progress(time: float, iteration: int) -> Event:
    return Event(time, "coordinator", "progress", {"iteration": iteration, "max_iter": 1000})


def test_a_prediction_is_compared_with_the_reports_that_follow_it() -> None:
    said = Event(
        3.0,
        "supervisor",
        "prediction",
        {"predicted_seconds": 0.11, "work_seconds": 0.08, "message_seconds": 0.001},
    )
    reports = [progress(4.0, 10), progress(6.0, 30)]
    assert tuning_real.after(said, reports, 3.0) is None
    found = tuning_real.after(said, [*reports, progress(8.0, 50)], 3.0)
    assert found is not None
    assert (found.measured, found.error) == (pytest.approx(0.1), pytest.approx(0.1))


def test_predictions_that_err_by_more_than_the_bar_fail() -> None:
    record = Record("r")
    tuning_real.judged(record, 0.09, 0.2, 0.4)
    assert (record.status, record.facts["median error %"]) == ("running", pytest.approx(9.0))
    tuning_real.judged(record, 0.12, 0.2, 0.4)
    assert record.status == "failed"
    assert record.notes == ["median error 12.0 %, at most 10 %"]


@pytest.mark.slow
def test_real_work_at_a_small_size_predicts_itself_and_other_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = Record("r")
    monkeypatch.setattr(tuning_real, "STRATEGIES", ({"preset": "single"},))
    tuning_real.real(record, 0, 0.2, ["LeNet"])
    (table,) = record.tables
    assert [row[1:5] for row in table.rows] == [
        ["single", 1, "", "its first seconds"],
        ["omnivore", 4, 1, "its first seconds"],
        ["omnivore", 4, 2, "the groups before"],
        ["omnivore", 4, 4, "the groups before"],
    ]
